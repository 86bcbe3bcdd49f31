"""How foreign errors become ours: kind, message, no secret."""

from __future__ import annotations

from typing import Any

import pytest

from core.adapters.milvus.connection import Connection, Deadline
from core.adapters.milvus.errors import Kind, kind_of, translated
from core.errors import DeadlineExceeded, IndexNotReady, RagError, StoreUnavailable


class FakeMilvusError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"<MilvusException: (code={code}, message={message})>")
        self.code = code
        self.message = message


class Status:
    def __init__(self, name: str) -> None:
        self.name = name


class FakeRpcError(Exception):
    def __init__(self, status: str, details: str = "details") -> None:
        super().__init__("<_InactiveRpcError>\nmany\nlines")
        self._status, self._details = status, details

    def code(self) -> Any:
        return Status(self._status)

    def details(self) -> str:
        return self._details


CASES = [
    (FakeMilvusError(2, "Fail connecting to server"), Kind.AWAY, StoreUnavailable, "milvus.uri"),
    (FakeMilvusError(1, "should create connection first"), Kind.AWAY, StoreUnavailable, "milvus.uri"),
    (ValueError("Cannot invoke RPC on closed channel!"), Kind.AWAY, StoreUnavailable, "milvus.uri"),
    (FakeRpcError("UNAVAILABLE"), Kind.AWAY, StoreUnavailable, "milvus.uri"),
    (FakeRpcError("DEADLINE_EXCEEDED"), Kind.LATE, DeadlineExceeded, "within 2 s"),
    (FakeMilvusError(1, "[search] Retry timeout: 2s"), Kind.LATE, DeadlineExceeded, "within 2 s"),
    (FakeMilvusError(100, "collection 'x' does not exist"), Kind.MISSING, IndexNotReady, "rebuild"),
    (FakeMilvusError(101, "state 'released'"), Kind.RELEASED, IndexNotReady, "not loaded"),
    (FakeRpcError("UNAUTHENTICATED", "auth"), Kind.REFUSED, StoreUnavailable, "milvus.token"),
    (FakeRpcError("UNIMPLEMENTED"), Kind.FAILED, StoreUnavailable, "doctor"),
    (FakeMilvusError(6, "bad\nrequest"), Kind.FAILED, StoreUnavailable, "doctor"),
]


@pytest.mark.parametrize(("foreign", "kind", "ours", "words"), CASES)
def test_every_foreign_error_has_a_kind_and_a_line_that_says_what_to_do(
    foreign: Exception, kind: Kind, ours: type[RagError], words: str
) -> None:
    assert kind_of(foreign) is kind
    error = translated(foreign, "the search", where="http://h:1", timeout=2.0, secrets=())
    assert type(error) is ours
    assert words in str(error)
    assert "\n" not in str(error)
    assert "<MilvusException" not in str(error)


@pytest.mark.parametrize("foreign", [FakeMilvusError(2, "away"), FakeRpcError("DEADLINE_EXCEEDED")])
def test_a_local_server_that_does_not_answer_is_ended_by_a_command(foreign: Exception) -> None:
    for local in (True, False):
        error = translated(foreign, "the search", where="/kb/milvus.db", timeout=2.0, secrets=(), local=local)
        assert ("serve --stop" in str(error)) is local


def test_no_secret_is_in_a_message() -> None:
    foreign = FakeMilvusError(2, "metadata authorization CANARY-TOKEN and QQ== at https://root:pw123@h:1")
    text = str(translated(foreign, "x", where="h", timeout=1.0, secrets=("CANARY-TOKEN",)))
    assert "CANARY-TOKEN" not in text
    assert "pw123" not in text


def test_a_long_foreign_text_is_cut() -> None:
    assert len(str(translated(FakeMilvusError(6, "x" * 9000), "y", where="h", timeout=1.0, secrets=()))) < 500


def test_a_deadline_is_shared_and_ends() -> None:
    assert 0 < Deadline(5.0).left("x") <= 5.0
    with pytest.raises(DeadlineExceeded, match="counting: not done within 0 s"):
        Deadline(0.0).left("counting")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://127.0.0.1:19530", "http://127.0.0.1:19530"),
        ("https://root:CANARY@milvus.invalid:443/db", "https://milvus.invalid:443"),
        ("https://CANARY@milvus.invalid", "https://milvus.invalid"),
        ("/data/x.db", "/data/x.db"),
    ],
)
def test_an_address_is_shown_without_its_credentials(uri: str, shown: str) -> None:
    connection = Connection(uri, "", connect_timeout=1.0, idle_seconds=60.0, secrets=())
    assert connection.where == shown


def test_a_password_inside_the_token_is_a_secret_of_its_own() -> None:
    connection = Connection("http://h:1", "root:CANARY", connect_timeout=1.0, idle_seconds=60.0, secrets=("other",))
    assert {"root:CANARY", "CANARY", "other", "cm9vdDpDQU5BUlk="} <= set(connection.secrets)


# --------------------------------------------------------------------------------------------- calls


class Scripted(Connection):
    """A connection whose clients are plain names, in order."""

    def __init__(self, *clients: Any) -> None:
        super().__init__("http://h:1", "CANARY", connect_timeout=1.0, idle_seconds=60.0, secrets=())
        self.clients = list(clients)

    def _new_client(self) -> Any:
        client = self.clients.pop(0)
        if isinstance(client, Exception):
            raise client
        return client


def test_case_128_a_dead_connection_is_replaced_and_the_call_tried_once_more() -> None:
    connection = Scripted("first", "second")

    def action(client: str, _deadline: Deadline) -> str:
        if client == "first":
            raise FakeRpcError("UNAVAILABLE")
        return client

    assert connection.call("x", action, timeout=5.0) == ("second", 1)
    assert connection.call("x", action, timeout=5.0) == ("second", 0)
    assert connection.epoch == 2


def test_a_server_that_stays_away_is_reported_after_one_retry() -> None:
    connection = Scripted("first", "second", "third")
    calls = []

    def action(client: str, _deadline: Deadline) -> str:
        calls.append(client)
        raise FakeMilvusError(2, "CANARY is not reachable")

    with pytest.raises(StoreUnavailable) as caught:
        connection.call("x", action, timeout=5.0)
    assert calls == ["first", "second"]
    assert "CANARY" not in str(caught.value)


def test_a_failed_connect_is_reported_and_tried_afresh_by_the_next_call() -> None:
    connection = Scripted(FakeMilvusError(2, "refused"), "fine")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        connection.call("x", lambda client, _d: client, timeout=5.0)
    assert connection.call("x", lambda client, _d: client, timeout=5.0) == ("fine", 0)


def test_a_connect_that_hangs_costs_the_caller_no_more_than_its_timeout() -> None:
    import threading

    release = threading.Event()

    class Hanging(Scripted):
        def _new_client(self) -> Any:
            release.wait(10)
            return "late"

    connection = Hanging()
    with pytest.raises(DeadlineExceeded, match=r"not connected within 0\.05 s"):
        connection.call("x", lambda client, _d: client, timeout=0.05)
    release.set()
    assert connection.call("x", lambda client, _d: client, timeout=5.0) == ("late", 0)


def test_errors_of_ours_pass_through_untouched() -> None:
    def action(_client: str, _deadline: Deadline) -> str:
        raise IndexNotReady("as it is")

    with pytest.raises(IndexNotReady, match=r"^as it is$"):
        Scripted("first").call("x", action, timeout=5.0)

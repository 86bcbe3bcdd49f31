"""``trace`` and ``audit`` on the command line, over a record that the real writer wrote."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import Database
from core.adapters.sql.queries import SqlConsoleQueries
from core.adapters.sql.tables import INVOCATION
from core.audit.entry import Entry
from core.audit.record import build
from core.cli import main
from core.stores import ConsoleQuery
from tests.unit.audit.audit_samples import AT, QUERY, TEXT, failed, record, result

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs one command: exit code, standard output, standard error."""
    settings = {
        "DATABASE__URL": database_url,
        "AUDIT__OUTBOX": str(tmp_path / "outbox"),
        "AUDIT__TIMEZONE": "Asia/Shanghai",
        "MILVUS__URI": str(tmp_path / "milvus.db"),
        "EMBEDDING__PROVIDER": "use",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"RAG__{name}", value)

    def run(*args: str) -> tuple[int, str, str]:
        code = main(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def call(number: int, *, content: str = "redacted", fail: bool = False, **columns: Any) -> Entry:
    """The ``number``-th call of session s-1, a minute after the one before; trace ``t-<n>``, record ``i-<n>``."""
    moment = AT + timedelta(minutes=number)
    made = failed("StoreUnavailable", "Milvus is away") if fail else result()
    trace = replace(made.retrieval_trace, trace_id=f"t-{number}", created_at=moment.isoformat(), **columns)
    made = replace(made, trace_id=f"t-{number}", retrieval_trace=trace)
    return build(record(made, invocation_id=f"i-{number}", created_at=moment), content=content)


@pytest.fixture
def ledger(database: Database) -> SqlLedger:
    return SqlLedger(database)


# ------------------------------------------------------------------------------------------------ trace


def test_a_trace_is_printed_as_it_was_recorded(command: Command, ledger: SqlLedger) -> None:
    ledger.deliver([call(1)])
    code, out, _ = command("trace", "t-1", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["trace_id"], data["found"], data["stored"]["invocation_id"]) == ("t-1", True, "i-1")
    first, second = data["retrieval_trace"]["attempts"][0]["candidates"]
    assert (first["dense_rank"], first["bm25_rank"], first["pack_rank"]) == (1, 2, 1)
    assert (second["drop_reason"], second["dense_rank"]) == ("return_limit", None)
    assert TEXT not in out


def test_a_trace_as_text_has_the_ladder_and_says_what_is_not_stored(command: Command, ledger: SqlLedger) -> None:
    ledger.deliver([call(1)])
    code, out, _ = command("trace", "t-1")
    assert code == 0
    assert "2026-01-02 11:05:05.678901 Asia/Shanghai" in out  # 03:05:05 UTC
    assert "return_limit at evidence" in out
    assert "audit.content was redacted" in out
    assert QUERY not in out


def test_a_trace_is_found_by_the_id_of_its_record_too(command: Command, ledger: SqlLedger) -> None:
    ledger.deliver([call(1, content="full")])
    code, out, _ = command("trace", "i-1", "--json")
    assert (code, json.loads(out)["trace_id"], json.loads(out)["query"]) == (0, "t-1", QUERY)


def test_the_question_of_a_console_lookup_comes_from_the_history(
    command: Command, ledger: SqlLedger, database: Database
) -> None:
    ledger.deliver([call(1)])
    SqlConsoleQueries(database).add(ConsoleQuery("t-1", QUERY, AT))
    assert json.loads(command("trace", "t-1", "--json")[1])["query"] == QUERY


def test_a_session_is_every_call_and_event_in_order_of_time(command: Command, ledger: SqlLedger) -> None:
    ledger.deliver([call(2), call(1), call(3, session_id="other"), call(4, fail=True)])
    code, out, _ = command("trace", "--session", "s-1", "--json")
    data = json.loads(out)
    assert code == 0
    assert [row["invocation_id"] for row in data["invocations"]] == ["i-1", "i-2", "i-4"]
    assert data["invocations"][2]["error_class"] == "StoreUnavailable"
    times = [event["created_at"] for event in data["events"]]
    assert times == sorted(times)
    assert {event["invocation_id"] for event in data["events"]} == {"i-1", "i-2", "i-4"}
    _, text, _ = command("trace", "--run", "r-1")
    starts = [line.split("  ")[0] for line in text.splitlines()]
    assert starts == sorted(starts)
    assert text.count("lookup_knowledge") == 4


@pytest.mark.parametrize("args", [("nowhere",), ("--session", "nowhere"), ("--run", "nowhere")])
def test_what_is_not_recorded_is_said_in_one_line(command: Command, args: tuple[str, ...]) -> None:
    code, out, err = command("trace", *args, "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "recorded" in err


@pytest.mark.parametrize("args", [(), ("t-1", "--session", "s")])
def test_a_trace_needs_one_thing_to_look_for(command: Command, args: tuple[str, ...]) -> None:
    code, _, err = command("trace", *args)
    assert code == 2
    assert "give one id" in err


# ------------------------------------------------------------------------------------------------ audit


def test_the_list_is_filtered_and_leads_to_its_next_page(command: Command, ledger: SqlLedger) -> None:
    ledger.deliver([call(number, fail=number == 2) for number in range(1, 6)])
    code, out, _ = command("audit", "--json", "--status", "ok", "--limit", "3")
    data = json.loads(out)
    assert (code, data["total"], data["total_exact"]) == (0, 4, True)
    assert [row["invocation_id"] for row in data["rows"]] == ["i-5", "i-4", "i-3"]
    _, out, _ = command("audit", "--json", "--status", "ok", "--limit", "3", "--older-than", data["older_than"])
    assert [row["invocation_id"] for row in json.loads(out)["rows"]] == ["i-1"]
    assert json.loads(out)["older_than"] is None
    _, text, _ = command("audit", "--since", "2026-01-02T11:06:00", "--until", "2026-01-02T11:07:00")
    assert "i-2" in text  # 03:06:05 UTC is 11:06:05 in Shanghai
    assert text.endswith("1 record\n")


def test_an_empty_list_is_no_error(command: Command) -> None:
    code, out, _ = command("audit", "--json")
    assert (code, json.loads(out)["rows"], json.loads(out)["total"]) == (0, [], 0)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--level", "GOOD"), "relevance_level"),
        (("--since", "soon"), "since"),
        (("--limit", "0"), "limit"),
        (("--older-than", "5"), "--older-than"),
        (("--out", "x.csv"), "--format"),
        (("--nonsense",), "--nonsense"),
        (("prune",), "--before"),
        (("prune", "--before", "soon"), "--before"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(command: Command, args: tuple[str, ...], named: str) -> None:
    code, out, err = command("audit", *args)
    assert (code, out) == (2, "")
    assert named in err


def test_case_121_the_exported_file_holds_what_is_listed(command: Command, ledger: SqlLedger, tmp_path: Path) -> None:
    ledger.deliver([call(1), call(2, session_id="=1+1"), call(3, fail=True)])
    file = tmp_path / "audit.csv"
    code, out, _ = command("audit", "--status", "ok", "--format", "csv", "--out", str(file), "--json")
    assert (code, json.loads(out)["records"]) == (0, 2)
    text = file.read_bytes().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["invocation_id"], row["session_id"]) for row in rows] == [("i-2", "'=1+1"), ("i-1", "s-1")]
    assert rows[0]["shown_at"].endswith("Asia/Shanghai")
    assert [path.name for path in tmp_path.glob("audit*")] == ["audit.csv"]
    code, out, _ = command("audit", "--format", "jsonl")
    assert [json.loads(line)["invocation_id"] for line in out.splitlines()] == ["i-3", "i-2", "i-1"]
    code, _, err = command("audit", "--format", "csv", "--out", str(tmp_path / "no" / "file.csv"))
    assert code == 2
    assert "--out" in err


def test_a_whole_record_verifies_and_a_changed_one_does_not(
    command: Command, ledger: SqlLedger, database: Database
) -> None:
    ledger.deliver([call(1), call(2)])
    code, out, _ = command("audit", "verify", "--json")
    assert (code, json.loads(out)["ok"], json.loads(out)["rows"]) == (0, True, 2)
    change = INVOCATION.update().where(INVOCATION.c.invocation_id == "i-1").values(status="error")
    database.write(lambda connection: connection.execute(change))
    code, out, _ = command("audit", "--json", "verify")
    data = json.loads(out)
    assert (code, data["ok"]) == (1, False)
    assert ("changed", "i-1") in {(finding["kind"], finding["invocation_id"]) for finding in data["findings"]}
    code, out, _ = command("audit", "verify")
    assert code == 1
    assert "i-1" in out


def test_pruning_removes_what_is_older_and_the_rest_still_verifies(command: Command, ledger: SqlLedger) -> None:
    ledger.deliver([call(1), call(2), call(3)])
    code, out, _ = command("audit", "prune", "--before", "2026-01-02T11:06:30", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 2)
    listed = json.loads(command("audit", "--json", "--tool", "lookup_knowledge")[1])
    assert [row["invocation_id"] for row in listed["rows"]] == ["i-3"]
    assert command("audit", "verify")[0] == 0
    assert command("trace", "t-1")[0] == 2


def test_a_database_that_is_away_is_exit_3(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG__DATABASE__URL", "mysql+pymysql://root:canary@127.0.0.1:1/none")
    code, out, err = command("audit", "--json")
    assert (code, out) == (3, "")
    assert "canary" not in err

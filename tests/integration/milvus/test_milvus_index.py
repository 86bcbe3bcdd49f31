"""What only a real server can do: go away, hang, forget what was loaded, hold collections that are not ours."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.adapters import milvus_server
from core.adapters.milvus import MilvusIndex
from core.errors import DeadlineExceeded, IndexNotReady, ProfileMismatch, SchemaMismatch, StoreUnavailable
from core.model import Generation
from tests.contract.generations import EVERYWHERE, generation, row, within

pytestmark = pytest.mark.milvus
T = 20.0
QUERY = np.array([1, 0, 0, 0], dtype=np.float32)


@pytest.fixture
def index(milvus_uri: str) -> Iterator[MilvusIndex]:
    index = MilvusIndex(milvus_uri)
    yield index
    index.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[MilvusIndex, Path]]:
    """An index over a file of its own, whose server may be killed."""
    path = tmp_path / "own.db"
    index = MilvusIndex(str(path))
    yield index, path
    index.close()
    milvus_server.stop(path)
    assert not milvus_server.status(path).running


def built(index: MilvusIndex, *rows: Any, **changes: Any) -> Generation:
    new = generation(**changes)
    index.create(new, timeout=T)
    index.insert(new, rows or [row("a", "redis"), row("b", "kafka", (0, 1, 0, 0))], timeout=T)
    index.seal(new, timeout=T)
    return new


def pid_of(path: Path) -> int:
    pid = milvus_server.status(path).pid
    assert pid is not None
    return pid


def client_of(index: MilvusIndex) -> Any:
    return index._connection.call("test", lambda client, _deadline: client, timeout=T)[0]


# --------------------------------------------------------------------------------------------- a server that goes away


def test_case_128_a_killed_server_costs_one_retry_and_no_answer(own: tuple[MilvusIndex, Path]) -> None:
    index, path = own
    new = built(index)
    assert index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T).retries == 0
    os.kill(pid_of(path), signal.SIGKILL)

    dense = index.search_dense(new, QUERY, EVERYWHERE, 5, timeout=T)
    assert [hit.chunk.doc_id for hit in dense.hits] == ["a", "b"]
    assert dense.retries == 1
    assert index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T).retries == 0


def test_case_128_both_branches_at_once_survive_a_restart(own: tuple[MilvusIndex, Path]) -> None:
    index, path = own
    new = built(index)
    milvus_server.stop(path)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T), range(8)))
    assert {len(answer.hits) for answer in answers} == {1}
    assert max(answer.retries for answer in answers) == 1


def test_writing_goes_on_after_a_kill(own: tuple[MilvusIndex, Path]) -> None:
    index, path = own
    new = generation()
    index.create(new, timeout=T)
    index.insert(new, [row("a")], timeout=T)
    os.kill(pid_of(path), signal.SIGKILL)
    index.insert(new, [row("b")], timeout=T)
    os.kill(pid_of(path), signal.SIGKILL)
    index.seal(new, timeout=T)
    index.seal(new, timeout=T)
    assert index.ids(new, timeout=T) == {"a#chunk-0", "b#chunk-0"}


def test_case_128_a_server_that_hangs_is_left_at_the_deadline(own: tuple[MilvusIndex, Path]) -> None:
    index, path = own
    new = built(index)
    os.kill(pid_of(path), signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded, match=r"within 0\.5 s"):
            index.search_dense(new, QUERY, EVERYWHERE, 5, timeout=0.5)
        assert time.monotonic() - began < 3.0
    finally:
        os.kill(pid_of(path), signal.SIGCONT)
    assert len(index.search_dense(new, QUERY, EVERYWHERE, 5, timeout=T).hits) == 2


def test_case_119_a_server_that_is_not_there_is_reported_at_once_and_without_the_token(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    index = MilvusIndex("http://127.0.0.1:9", "root:CANARY-TOKEN", connect_timeout=2.0)
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9 cannot be reached") as caught,
    ):
        index.search_dense(generation(), QUERY, EVERYWHERE, 5, timeout=5.0)
    out, err = capfd.readouterr()
    assert "CANARY" not in str(caught.value) + caplog.text + out + err
    assert "\n" not in str(caught.value)
    assert err == ""


def test_a_proxy_in_the_environment_does_not_stand_in_the_way(milvus_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for uri in (milvus_uri, milvus_server.ensure(milvus_uri)):
        index = MilvusIndex(uri, connect_timeout=5.0)
        assert index.health(timeout=T).startswith("Milvus Lite 3.")
        index.close()


def test_a_released_collection_is_loaded_again(index: MilvusIndex) -> None:
    new = built(index)
    client_of(index).release_collection(new.collection)
    answer = index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T)
    assert (len(answer.hits), answer.retries) == (1, 1)
    index.drop(new.collection, timeout=T)


def test_a_collection_that_another_process_dropped_is_said_to_be_missing(milvus_uri: str, index: MilvusIndex) -> None:
    new = built(index)
    other = MilvusIndex(milvus_uri)
    other.drop(new.collection, timeout=T)
    other.close()
    for _ in range(2):
        with pytest.raises(IndexNotReady, match="does not exist; rebuild"):
            index.search_dense(new, QUERY, EVERYWHERE, 5, timeout=T)


def test_a_closed_index_opens_again(index: MilvusIndex) -> None:
    new = built(index)
    index.close()
    index.close()
    assert index.count(new, timeout=T) == 2
    index.drop(new.collection, timeout=T)


def test_threads_share_one_client(index: MilvusIndex) -> None:
    new = built(index)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: len(index.search_dense(new, QUERY, EVERYWHERE, 5, timeout=T).hits), range(40)))
    assert found == [2] * 40
    index.drop(new.collection, timeout=T)


# --------------------------------------------------------------------------------------------- collections not ours


def foreign(index: MilvusIndex, *, sparse: bool = True, metric: str = "L2", dimension: int = 4) -> Generation:
    """A collection made by somebody else."""
    from pymilvus import DataType

    from core.adapters.milvus import schema

    client, new = client_of(index), generation()
    if sparse:
        fields = schema.build(client, dimension)
    else:
        fields = client.create_schema(auto_id=False, enable_dynamic_field=False)
        fields.add_field("id", DataType.VARCHAR, is_primary=True, max_length=64)
        fields.add_field("content", DataType.VARCHAR, max_length=1000)
        fields.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    client.create_collection(new.collection, schema=fields)
    indexes = client.prepare_index_params()
    indexes.add_index("vector", index_type="FLAT", metric_type=metric)
    client.create_index(new.collection, indexes, sync=False)
    return new


@pytest.mark.parametrize(
    ("shape", "error", "words"),
    [
        ({"sparse": False}, SchemaMismatch, "lacks the fields search_text, sparse_vector"),
        ({"metric": "COSINE"}, SchemaMismatch, "measures vectors by COSINE, not by L2"),
        ({"metric": "IP"}, SchemaMismatch, "measures vectors by IP"),
        ({"dimension": 8}, ProfileMismatch, "8 dimensions"),
    ],
    ids=["dense only", "case 43: cosine", "case 43: inner product", "other dimension"],
)
def test_case_43_a_collection_of_another_shape_is_refused_and_never_searched(
    index: MilvusIndex, shape: dict[str, Any], error: type[Exception], words: str
) -> None:
    new = foreign(index, **shape)
    for search in (
        lambda: index.search_dense(new, QUERY, EVERYWHERE, 5, timeout=T),
        lambda: index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T),
        lambda: index.search_hybrid(new, QUERY, "redis", EVERYWHERE, 5, window=5, rrf_k=60, timeout=T),
    ):
        with pytest.raises(error, match=words):
            search()
    (info,) = (i for i in index.collections("biz_", timeout=T) if i.name == new.collection)
    assert bool(info.problems) is (error is SchemaMismatch)
    index.drop(new.collection, timeout=T)


def test_case_130_health_says_version_and_capability_in_plain_words(index: MilvusIndex, milvus_uri: str) -> None:
    assert index.health(timeout=T) == f"Milvus Lite 3.2.2 at {milvus_uri}, BM25 available"


def test_case_130_sealing_tries_bm25_on_a_stored_text(index: MilvusIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    new = generation()
    index.create(new, timeout=T)
    index.insert(new, [row("a", "差动 保护")], timeout=T)
    client = client_of(index)
    monkeypatch.setattr(client, "search", lambda *_, **__: [[]])
    with pytest.raises(SchemaMismatch, match="does not find a stored text by its own words"):
        index.seal(new, timeout=T)
    monkeypatch.undo()
    index.seal(new, timeout=T)
    index.drop(new.collection, timeout=T)


# --------------------------------------------------------------------------------------------- damage


def files(path: Path, collection: str, suffix: str) -> list[Path]:
    return [f for f in (path / "collections" / collection).rglob(f"*{suffix}") if f.is_file()]


def test_an_index_file_cut_short_by_a_crash_is_built_anew(
    own: tuple[MilvusIndex, Path], caplog: pytest.LogCaptureFixture
) -> None:
    index, path = own
    new = built(index, *(row(f"d{i}", f"word{i}", (i, 0, 0, 0)) for i in range(50)))
    milvus_server.stop(path)
    cut = files(path, new.collection, ".idx")
    assert cut
    for file in cut:
        file.write_bytes(b"")

    answer = index.search_dense(new, np.zeros(4), EVERYWHERE, 3, timeout=T)
    assert [hit.chunk.doc_id for hit in answer.hits] == ["d0", "d1", "d2"]
    assert index.count(new, timeout=T) == 50
    assert "building its indexes anew" in caplog.text
    assert sorted(client_of(index).list_indexes(new.collection)) == [
        "category",
        "doc_id",
        "kb_scope",
        "sparse_vector",
        "vector",
    ]


def test_one_broken_collection_hides_no_other_and_can_be_dropped(own: tuple[MilvusIndex, Path]) -> None:
    index, path = own
    good, bad = built(index), built(index)
    milvus_server.stop(path)
    for file in files(path, bad.collection, ".json") + files(path, bad.collection, ".prev"):
        file.write_bytes(b"")

    found = {info.name: info for info in index.collections("biz_", timeout=T)}
    assert found[good.collection].problems == ()
    assert found[good.collection].rows == 2
    assert found[bad.collection].rows is None
    assert "drop it and rebuild" in found[bad.collection].problems[0]
    assert len(index.search_dense(good, QUERY, EVERYWHERE, 5, timeout=T).hits) == 2

    index.drop(bad.collection, timeout=T)
    assert [info.name for info in index.collections("biz_", timeout=T)] == [good.collection]


def test_sealing_takes_up_where_a_crash_left_off(index: MilvusIndex) -> None:
    new = generation()
    index.create(new, timeout=T)
    index.insert(new, [row("a", "redis")], timeout=T)
    client = client_of(index)
    one = client.prepare_index_params()
    one.add_index("vector", index_type="FLAT", index_name="vector", metric_type="L2")
    client.create_index(new.collection, one, sync=False)
    index.seal(new, timeout=T)
    assert len(client.list_indexes(new.collection)) == 5
    assert len(index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T).hits) == 1
    index.drop(new.collection, timeout=T)


# --------------------------------------------------------------------------------------------- parameters and values


def test_index_parameters_reach_the_store(index: MilvusIndex) -> None:
    new = built(index, *(row(f"d{i}", vector=(i, i % 7, 0, 0)) for i in range(200)))
    client = client_of(index)
    assert client.describe_index(new.collection, "sparse_vector")["params"] == {"bm25_k1": 1.2, "bm25_b": 0.75}
    assert client.describe_index(new.collection, "vector")["index_type"] == "FLAT"

    index.set_index(new, {"index_type": "IVF_FLAT", "nlist": 4}, timeout=T)
    described = client.describe_index(new.collection, "vector")
    assert (described["index_type"], described["params"]) == ("IVF_FLAT", {"nlist": 4})
    probing = replace(new, search_params={"nprobe": 4})
    answer = index.search_dense(probing, np.array([10, 3, 0, 0]), EVERYWHERE, 1, timeout=T)
    assert [hit.chunk.doc_id for hit in answer.hits] == ["d10"]
    index.drop(new.collection, timeout=T)


def test_cases_28_30_and_31_random_values_select_exactly_their_own_rows(index: MilvusIndex) -> None:
    chance = random.Random(11)
    letters = "\"'\\\n\r\t{}[]()%$|&=<>!#;:, 汉字é😀ab0_-"
    values = sorted({"".join(chance.choices(letters, k=chance.randint(1, 12))) for _ in range(60)})
    new = built(index, *(row(f"d{i}", "redis", category=value) for i, value in enumerate(values)))
    for i, value in enumerate(values):
        answer = index.search_bm25(new, "redis", within("default", category=value), 100, timeout=T)
        assert [hit.chunk.doc_id for hit in answer.hits] == [f"d{i}"], value
    index.drop(new.collection, timeout=T)


def test_numbers_that_are_not_finite_come_back_as_none(index: MilvusIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    new = built(index)
    entity = {"content": "x", "vector": [float("nan")] * 4, "kb_scope": "default"}
    broken = [[{"id": "a#chunk-0", "distance": float("nan"), "entity": entity}]]
    monkeypatch.setattr(client_of(index), "search", lambda *_, **__: broken)
    (hit,) = index.search_bm25(new, "redis", EVERYWHERE, 5, timeout=T).hits
    assert hit.score is None
    assert hit.vector is None
    monkeypatch.undo()
    index.drop(new.collection, timeout=T)

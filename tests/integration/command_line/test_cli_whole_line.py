"""The command line on real stores: a folder of runbooks becomes an index, a question becomes evidence."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.adapters.milvus import MilvusIndex
from core.settings import ROOT
from tests.contract.generations import generation

POOL = """---
title: Redis 连接池耗尽排查
category: redis
keywords: [redis, 连接池, 连接池耗尽]
---
# 现象

应用日志出现 JedisConnectionException: Could not get a resource from the pool。

# 处理

把 maxTotal 调到 200，检查是否有连接没有归还，错误码 RDS-4471。
"""
LAG = """---
title: Kafka consumer lag keeps growing
category: kafka
keywords: [kafka, consumer lag]
---
# Check

Compare the produce rate with the consume rate of the group; look for rebalances in the broker log.
"""
SECRET = """---
title: Payment switch
category: payments
kb_scope: team-payments
keywords: [payment switch]
---
The standby payment switch is activated by two people, marker PAYCANARY-7.
"""


@dataclass
class House:
    """One installation in a temporary folder, driven as an operator drives it."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("RAG_")},
            "RAG__MILVUS__URI": str(self.root / "milvus.db"),
            "RAG__MILVUS__IDLE_SECONDS": "120",
            "RAG__DATABASE__URL": f"sqlite:///{self.root}/console.sqlite3",
            "RAG__EMBEDDING__PROVIDER": "use",
            "RAG__EMBEDDING__CALIBRATION": str(self.root / "calibration.json"),
            "RAG__KNOWLEDGE__SOURCE": str(self.root / "runbooks"),
            "RAG__KNOWLEDGE__UPLOADS": str(self.root / "uploads"),
            "RAG__AUDIT__OUTBOX": str(self.root / "outbox"),
        }

    def run(self, *args: str, stdin: str = "", code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        given = {**self.environment, **env}
        done = subprocess.run(
            [sys.executable, "-m", "core", *args],
            cwd=ROOT,
            env=given,
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=180,
            check=False,
        )
        assert code is None or done.returncode == code, f"exit {done.returncode}: {done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *args: str, code: int = 0, **env: str) -> Any:
        return json.loads(self.run(*args, "--json", code=code, **env).stdout)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    root = tmp_path_factory.mktemp("house")
    (root / "runbooks").mkdir()
    for name, text in {"pool": POOL, "lag": LAG, "switch": SECRET}.items():
        (root / "runbooks" / f"{name}.md").write_text(text, encoding="utf-8")
    found = House(root)
    found.run("rebuild", "--confirm", "REBUILD", "--why", "test")
    yield found
    found.run("serve", "--stop")


def test_a_question_prints_what_the_agent_sees_and_nothing_else(house: House) -> None:
    answer = house.json("lookup", "Redis 连接池耗尽怎么办")
    assert set(answer) == {
        "evidence_status",
        "tool_call_id",
        "query",
        "evidence",
        "relevance_level",
        "truncated",
        "returned_count",
    }
    assert answer["evidence_status"] == "READY"
    assert answer["evidence"][0]["document_id"].startswith("pool#chunk-")
    assert set(answer["evidence"][0]) == {"document_id", "source", "title", "breadcrumb", "excerpt"}
    assert answer["returned_count"] == len(answer["evidence"])


def test_the_whole_result_carries_every_stage_under_its_fixed_names(house: House) -> None:
    result = house.json("lookup", "RDS-4471", "--full")
    attempt = result["retrieval_trace"]["attempts"][0]
    first = next(c for c in attempt["candidates"] if c["evidence_rank"] == 1)
    assert first["doc_id"] == "pool"
    assert first["bm25_rank"] == 1
    assert {"dense_rank", "dense_distance", "rrf_rank", "quality_score", "pack_rank", "projection_rank"} <= set(first)
    assert [b["branch"] for b in attempt["branches"]] == ["dense", "bm25"]
    assert result["context_pack"]["used_chars"] == len(result["context_pack"]["packed_text"])


def test_standard_input_asks_too(house: House) -> None:
    assert "lag#chunk-0" in house.run("lookup", "-", stdin="kafka consumer lag\n").stdout


def test_a_recorded_lookup_is_found_by_its_id(house: House) -> None:
    result = house.json("lookup", "kafka consumer lag", "--full")
    stored = house.json("trace", result["trace_id"])
    assert result["trace_id"] in json.dumps(stored)
    house.run("audit", "verify")


def test_a_batch_answers_every_line_and_says_which_failed(house: House, tmp_path: Path) -> None:
    asked = tmp_path / "queries.jsonl"
    rows = [{"query_id": "a", "query": "redis pool"}, {"query_id": "b", "query": "???"}]
    asked.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    house.run("lookup", "--batch", str(asked), "--out", str(tmp_path / "out.jsonl"), code=1)
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [a["query_id"] for a in answers] == ["a", "b"]
    assert answers[0]["result"]["found"] is True
    assert answers[1]["error"]["class"] == "InvalidQuery"


def test_nothing_to_search_for_is_refused_with_a_hint_and_recorded(house: House, tmp_path: Path) -> None:
    before = house.json("audit")["total"]
    assert house.run("lookup", "???", code=2).stderr.startswith("error: the query holds only symbols")
    asked = tmp_path / "nothing.jsonl"
    rows = [{"query_id": n, "query": query} for n, query in enumerate(["", "   ", "🔥🔥", "\u200b"])]
    asked.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    done = house.run("lookup", "--batch", str(asked), code=1)
    errors = [json.loads(line)["error"] for line in done.stdout.splitlines()]
    assert {error["class"] for error in errors} == {"InvalidQuery"}
    assert all("write" in error["message"] for error in errors)
    assert house.json("audit")["total"] == before + 5


def test_a_scope_is_a_boundary_and_naming_it_opens_it(house: House) -> None:
    closed = house.run("lookup", "payment switch PAYCANARY-7", "--json").stdout
    assert "two people" not in closed
    opened = house.json("lookup", "payment switch PAYCANARY-7", "--kb-scope", "team-payments")
    assert opened["evidence"][0]["document_id"] == "switch#chunk-0"


def test_the_doctor_finds_everything_well(house: House) -> None:
    report = house.json("doctor")
    assert report["ok"] is True
    assert {f["part"] for f in report["findings"]} >= {"database", "vector store", "model", "index", "search", "audit"}


def test_the_doctor_names_a_database_that_is_away_and_goes_on(house: House) -> None:
    url = "mysql+pymysql://kb:S3cr3tCANARY@127.0.0.1:9/x"
    done = house.run("doctor", "--json", code=3, RAG__DATABASE__URL=url)
    findings = {f["part"]: f for f in json.loads(done.stdout)["findings"]}
    assert findings["database"]["ok"] is False
    assert findings["vector store"]["ok"] is True
    assert "S3cr3tCANARY" not in done.stdout + done.stderr
    assert "127.0.0.1" in findings["database"]["state"]


def test_the_doctor_says_how_to_leave_a_store_whose_files_are_garbage(house: House, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    shutil.copytree(house.root / "milvus.db", broken)
    for file in filter(Path.is_file, broken.rglob("*")):
        file.write_bytes(os.urandom(64))
    where = {"RAG__MILVUS__URI": str(broken)}
    try:
        findings = json.loads(house.run("doctor", "--json", code=3, **where).stdout)["findings"]
    finally:
        house.run("serve", "--stop", **where)
    (store,) = (f for f in findings if f["part"] == "vector store")
    assert store["ok"] is False
    assert f"serve --stop; move {broken} away; then rebuild" in store["mend"]


def finding(house: House, part: str, *, code: int = 0, **where: str) -> dict[str, Any]:
    found = json.loads(house.run("doctor", "--json", code=code, **where).stdout)["findings"]
    return next(f for f in found if f["part"] == part)


def test_the_doctor_names_a_database_whose_file_is_damaged(house: House, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite3"
    with closing(sqlite3.connect(house.root / "console.sqlite3")) as whole, closing(sqlite3.connect(copy)) as target:
        whole.backup(target)
        page = target.execute("SELECT rootpage FROM sqlite_master WHERE name = 'knowledge_chunk'").fetchone()[0]
    data = bytearray(copy.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = bytes(4096)
    copy.write_bytes(data)
    found = finding(house, "database", code=3, RAG__DATABASE__URL=f"sqlite:///{copy}")
    assert found["ok"] is False
    assert "damaged" in found["state"]
    assert "put a copy back" in found["mend"]


def test_an_alias_that_lags_is_told_with_its_mend_and_nothing_is_down(house: House) -> None:
    index = MilvusIndex(str(house.root / "milvus.db"))
    target = index.alias_target("biz", timeout=60)
    other = replace(generation(), collection="biz_g999")
    try:
        index.create(other, timeout=60)
        index.seal(other, timeout=60)
        index.point_alias("biz", "biz_g999", timeout=60)
        found = finding(house, "index")
        assert found["ok"] is True
        assert "biz_g999" in found["state"]
        assert "repairs the alias" in found["mend"]
    finally:
        index.point_alias("biz", str(target), timeout=60)
        index.drop("biz_g999", timeout=60)
        index.close()


def test_anything_but_the_word_changes_nothing(house: House) -> None:
    before = _index_state(house)
    for word in ("", "rebuild", "REBUILD ", "YES"):
        assert "REBUILD" in house.run("rebuild", "--confirm", word, code=2).stderr
    assert _index_state(house) == before


def _index_state(house: House) -> str:
    return next(f["state"] for f in house.json("doctor")["findings"] if f["part"] == "index")


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"RAG__RAG__RETRIEVE_K": "zero"}, "rag.retrieve_k"),
        ({"RAG__RETRIEVAL__SEARCH__MODE": "sparse"}, "retrieval.search.mode"),
        ({"RAG__QUALITY__THRESHOLD": "1"}, "quality.threshold"),
        ({"RAG__MILVUS__URI": "milvus.txt"}, "milvus.uri"),
    ],
)
def test_a_wrong_setting_stops_the_start_by_its_name(house: House, env: dict[str, str], named: str) -> None:
    done = house.run("lookup", "redis", code=2, **env)
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_option_is_bad_use(house: House) -> None:
    assert "--help" in house.run("lookup", "redis", "--mode", "sparse", code=2).stderr


def test_two_processes_at_once_share_the_embedded_store(house: House) -> None:
    others = [
        subprocess.Popen(
            [sys.executable, "-m", "core", "lookup", "redis pool", "--json"],
            cwd=ROOT,
            env=house.environment,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for _ in range(3)
    ]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in others]
    assert {answer["evidence_status"] for answer in answers} == {"READY"}
    assert {process.returncode for process in others} == {0}

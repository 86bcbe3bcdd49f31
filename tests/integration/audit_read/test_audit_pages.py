"""Pages, neighbours, one record, facets: on both engines."""

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from core.adapters.sql import audit_log, audit_places
from core.adapters.sql.audit_log import SqlAuditLog
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.tables import INVOCATION
from core.audit.export import Format, export
from core.audit.query import AuditFilter, AuditPage, Facets, Neighbours, cursor_from_param, cursor_to_param
from core.errors import BadInput, NotFound
from core.stores import Cursor
from tests.integration.audit_read.records import NOON, at, record, write


def ids(page: AuditPage) -> list[str]:
    return [row.invocation_id for row in page.rows]


def test_an_empty_record_is_a_page_without_rows(database: Database) -> None:
    log = SqlAuditLog(database)
    assert log.page() == AuditPage((), 0, True, None, None)
    assert log.page(oldest=True) == AuditPage((), 0, True, None, None)
    assert log.get("i1") is None
    assert log.facets() == Facets()
    assert list(log.export()) == []


def test_pages_of_equal_times_lead_down_and_up_again_without_loss(database: Database) -> None:
    write(database, *(record(number, seconds=number // 4) for number in range(1, 12)))
    log, down = SqlAuditLog(database), [f"i{number}" for number in reversed(range(1, 12))]
    page, pages = log.page(limit=3), []
    pages.append(page)
    while page.older is not None:
        page = log.page(limit=3, before=cursor_from_param(cursor_to_param(page.older)))
        pages.append(page)
    assert [ids(page) for page in pages] == [down[0:3], down[3:6], down[6:9], down[9:]]
    assert {(page.total, page.total_exact) for page in pages} == {(11, True)}
    assert (pages[0].newer, pages[-1].older) == (None, None)
    up = [ids(page)]
    while page.newer is not None:
        page = log.page(limit=3, after=page.newer)
        up.append(ids(page))
    assert up == [down[9:], down[6:9], down[3:6], down[0:3]]


def test_the_last_page_is_reached_at_once(database: Database) -> None:
    write(database, *(record(number, seconds=number // 4) for number in range(1, 8)))
    page = SqlAuditLog(database).page(limit=3, oldest=True)
    assert ids(page) == ["i3", "i2", "i1"]
    assert page.older is None
    assert page.newer is not None
    assert ids(SqlAuditLog(database).page(limit=3, after=page.newer)) == ["i6", "i5", "i4"]
    assert ids(SqlAuditLog(database).page(limit=9, oldest=True)) == [f"i{n}" for n in reversed(range(1, 8))]


def test_the_first_page_reached_from_below_is_full_and_has_what_came_meanwhile(database: Database) -> None:
    write(database, *(record(number, seconds=number) for number in range(1, 6)))
    log = SqlAuditLog(database)
    second = log.page(limit=3, before=log.page(limit=3).older)
    write(database, record(6, seconds=6))
    assert second.newer is not None
    assert ids(second) == ["i2", "i1"]
    assert ids(log.page(limit=3, after=second.newer)) == ["i5", "i4", "i3"]
    assert ids(log.page(limit=5, after=second.newer)) == ["i6", "i5", "i4", "i3", "i2"]


def test_a_page_whose_rows_were_pruned_leads_back(database: Database) -> None:
    write(database, record(1))
    place = Cursor(at(-5), "1")
    page = SqlAuditLog(database).page(before=place)
    assert (page.rows, page.total, page.newer, page.older) == ((), 1, place, None)
    assert ids(SqlAuditLog(database).page(after=place)) == ["i1"]


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_limit_outside_its_bounds_is_refused(database: Database, limit: int) -> None:
    with pytest.raises(BadInput, match="1 to 1000"):
        SqlAuditLog(database).page(limit=limit)


def test_two_places_at_once_are_refused(database: Database) -> None:
    with pytest.raises(BadInput, match="one of them"):
        SqlAuditLog(database).page(before=Cursor(NOON, "1"), oldest=True)


# ------------------------------------------------------------------------------------------------ filters

MATCHES: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, Any]]] = {
    # condition, columns of the record that it finds, columns of one that it does not
    "status": ({"status": "timeout"}, {"status": "timeout"}, {"status": "error"}),
    "error": (
        {"error": "DeadlineExceeded"},
        {"error_class": "DeadlineExceeded", "status": "timeout"},
        {"error_class": "deadlineexceeded", "status": "timeout"},
    ),
    "level": ({"relevance_level": "REFERENCE"}, {"relevance_level": "REFERENCE"}, {"relevance_level": None}),
    "no level": ({"relevance_level": "none"}, {"relevance_level": None}, {}),
    "evidence": ({"evidence_status": "NO_EVIDENCE"}, {"evidence_status": "NO_EVIDENCE"}, {}),
    "attempt": ({"attempt": "FILTERED_VECTOR"}, {"selected_attempt": "FILTERED_VECTOR"}, {"selected_attempt": None}),
    "no attempt": ({"attempt": "none"}, {"selected_attempt": None}, {}),
    "fallback": (
        {"fallback": "FALLBACK_LOW_QUALITY"},
        {"fallback_reason": "FALLBACK_LOW_QUALITY"},
        {"fallback_reason": "FALLBACK_NO_EVIDENCE"},
    ),
    "any fallback": ({"fallback": "any"}, {"fallback_reason": "FALLBACK_NO_EVIDENCE"}, {}),
    "no fallback": ({"fallback": "none"}, {}, {"fallback_reason": "FALLBACK_NO_EVIDENCE"}),
    "degraded": ({"degraded": "yes"}, {"degraded": True}, {}),
    "not degraded": ({"degraded": "no"}, {}, {"degraded": True}),
    "retried": ({"only": "retried"}, {"retries": 2}, {"retries": None}),
    "violation": ({"only": "scope_violation"}, {"scope_violations": 1}, {"scope_violations": None}),
    "stale": ({"only": "stale"}, {"stale_count": 1}, {}),
    "budget": ({"only": "budget_drop"}, {"pack_dropped": 1}, {}),
    "truncated": ({"only": "truncated"}, {"truncated": True}, {}),
    "what-if": ({"only": "what_if"}, {"what_if": True}, {}),
    "cut": ({"only": "cut"}, {"cut": True}, {}),
    "all of only": ({"only": "stale,retried"}, {"stale_count": 1, "retries": 1}, {"stale_count": 1}),
    "tool": ({"tool": "other"}, {"tool_name": "other"}, {"tool_name": "Other"}),
    "origin": ({"origin": "eval"}, {"origin": "eval"}, {}),
    "session": ({"session": "会话"}, {"session_id": "会话"}, {"session_id": "会话 2"}),
    "run": ({"run": "r"}, {"run_id": "r"}, {"run_id": "R"}),
    "trace": ({"trace": "T"}, {"trace_id": "T"}, {}),
    "scope": ({"scope": "payments"}, {"kb_scope": "payments"}, {"kb_scope": "payments-eu"}),
    "one of the scopes": ({"scope": "b"}, {"kb_scope": "a,b,c"}, {"kb_scope": "ab,bc"}),
    "all scopes": ({"scope": "*"}, {"kb_scope": "*"}, {"kb_scope": None}),
    "language": ({"language": "zh"}, {"language": "zh"}, {}),
    "generation": ({"generation": "7"}, {"generation": 7}, {"generation": None}),
    "embedding model": ({"model": "e5"}, {"embedding_profile": "e5"}, {"embedding_profile": "e5-large"}),
    "reranker": ({"reranker": "bge"}, {"reranker_model": "bge"}, {}),
    "slower": ({"min_ms": "20"}, {"total_ms": 20.0}, {"total_ms": 19.999}),
    "faster": ({"max_ms": "9.5"}, {"total_ms": 9.5}, {"total_ms": None}),
    "text": (
        {"text": "连接池 OOM_%"},
        {"search_text": "redis 连接池 oom_% x"},
        {"search_text": "redis 连接池 oomx% x"},
    ),
    "since": ({"since": "2026-03-01T12:00:01Z"}, {"created_at": at(0.75)}, {"created_at": at(0.749_999)}),
    "until": ({"until": "2026-03-01T12:00:01Z"}, {"created_at": at(0.749_999)}, {"created_at": at(0.75)}),
    "several": (
        {"status": "ok", "relevance_level": "none", "since": "2026-03-01", "generation": "2"},
        {"relevance_level": None, "generation": 2},
        {"relevance_level": None},
    ),
}


def test_every_condition_finds_its_records_and_no_others(database: Database) -> None:
    log, found = SqlAuditLog(database), {}
    for name, (params, wanted, other) in MATCHES.items():
        database.write(lambda connection: connection.execute(INVOCATION.delete()))
        write(database, record(1, **other), record(2, **wanted), record(3, **other))
        where = AuditFilter.from_params(params)
        page, last = log.page(where), log.page(where, oldest=True)
        found[name] = ids(page), page.total, ids(last), [row.invocation_id for row in log.export(where)]
    assert found == {name: (["i2"], 1, ["i2"], ["i2"]) for name in MATCHES}


@pytest.fixture(params=["Asia/Shanghai", "UTC"])
def machine_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process runs in this zone."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("machine_zone")
def test_case_77_the_filter_includes_the_row_of_its_own_moment(database: Database) -> None:
    write(database, record(1, 0), record(2, 0.1), record(3, 0.2))
    log = SqlAuditLog(database)
    second = log.page().rows[1]
    assert (second.invocation_id, second.created_at) == ("i2", at(0.1))
    where = AuditFilter.from_params(AuditFilter(since=second.created_at).to_params(), zone="Asia/Shanghai")
    assert ids(log.page(where)) == ["i3", "i2"]


def test_case_80_a_record_of_another_process_appears_at_once(database: Database, database_url: str) -> None:
    log = SqlAuditLog(database)
    write(database, record(1))
    assert ids(log.page()) == ["i1"]
    other = connect(database_url)
    write(other, record(2))
    other.close()
    assert ids(log.page()) == ["i2", "i1"]


# ------------------------------------------------------------------------------------------------ one record


def test_a_record_comes_whole_with_its_hashes_and_its_data(database: Database) -> None:
    agent = '{"evidence": [{"title": "断路器🔥"}]}'
    write(database, record(1, agent_result=agent, query_text="断" * 400, overlap_at_10=0.25, embedding_cache_hit=True))
    found = SqlAuditLog(database).get("i1")
    assert found is not None
    assert (found.row.invocation_id, found.row.created_at, found.row.overlap_at_10) == ("i1", NOON, 0.25)
    assert (found.columns["seq"], found.columns["row_hash"]) == (1, f"{1:064x}")
    assert found.json("agent_result") == {"evidence": [{"title": "断路器🔥"}]}
    assert found.json("raw_result") is None
    assert found.row.query_text == "断" * 400


def test_case_111_a_list_carries_cut_texts_and_a_bounded_number_of_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "COUNTED", 50)
    long = record(1, query_text="断" * 301, raw_result='"' + "x" * 1_000_000 + '"')
    write(database, long, record(2, query_text="断" * 300), *(record(number) for number in range(3, 60)))
    log = SqlAuditLog(database)
    page = log.page(limit=50)
    assert (len(page.rows), page.total, page.total_exact) == (50, 50, False)
    rows = {row.invocation_id: row for row in log.page(limit=10, oldest=True).rows}
    assert rows["i1"].query_text == "断" * 300 + "…"
    assert rows["i2"].query_text == "断" * 300
    fifty = log.page(AuditFilter(since=NOON, max_ms=10.0), limit=9)
    assert (len(fifty.rows), fifty.total, fifty.total_exact) == (9, 50, False)


def test_neighbours_follow_the_list_of_the_filter(database: Database) -> None:
    write(
        database, *(record(number, seconds=number // 3, status="error" if number % 2 else "ok") for number in range(6))
    )
    log = SqlAuditLog(database)
    assert log.neighbours(AuditFilter(), "i2") == Neighbours(newer="i3", older="i1")
    assert log.neighbours(AuditFilter(status="ok"), "i2") == Neighbours(newer="i4", older="i0")
    assert log.neighbours(AuditFilter(status="error"), "i2") == Neighbours(newer="i3", older="i1")
    assert log.neighbours(AuditFilter(), "i5") == Neighbours(newer=None, older="i4")
    assert log.neighbours(AuditFilter(), "i0") == Neighbours(newer="i1", older=None)
    with pytest.raises(NotFound, match="no record"):
        log.neighbours(AuditFilter(), "nowhere")


def test_facets_are_the_values_that_there_are(database: Database) -> None:
    write(
        database,
        record(1, kb_scope="b,a", embedding_profile="e5", generation=2, actor=""),
        record(2, kb_scope="c", embedding_profile="e5", reranker_model="bge", status="error", error_class="Busy"),
        record(3, kb_scope=None, generation=None),
    )
    assert SqlAuditLog(database).facets() == Facets(
        status=("error", "ok"),
        error=("Busy",),
        tool=("lookup_knowledge",),
        origin=("agent",),
        scope=("a", "b", "c"),
        language=("en",),
        generation=(1, 2),
        model=("e5",),
        reranker=("bge",),
        rows=3,
    )


def test_what_no_index_knows_is_looked_for_step_by_step(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_places, "LOOKED_AT", 4)
    write(database, *(record(n, seconds=n // 2, search_text="redis" if n in {1, 6, 7} else "") for n in range(1, 11)))
    log, where, pages = SqlAuditLog(database), AuditFilter(text="Redis"), []
    page = log.page(where, limit=2)
    pages.append(page)
    while page.older is not None:
        page = log.page(where, limit=2, before=page.older)
        pages.append(page)
    assert [ids(page) for page in pages] == [["i7"], ["i6"], ["i1"]]  # 10 to 7, 6 to 3, 2 and 1
    assert {(page.total, page.total_exact) for page in pages} == {(1, False)}
    up = []
    while page.newer is not None:
        page = log.page(where, limit=2, after=page.newer)
        up.append(ids(page))
    assert up == [[], ["i7", "i6"], ["i7"]]  # 2 to 5, 6 to 9, and from the top again
    assert [row.invocation_id for row in log.export(where)] == ["i7", "i6", "i1"]
    assert ids(log.page(where, limit=2, oldest=True)) == ["i1"]


# ------------------------------------------------------------------------------------------------ export


def test_an_export_is_every_page_of_the_list_in_its_order(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "BATCH", 4)
    monkeypatch.setattr(audit_log, "WHOLE_BATCH", 13)
    write(database, *(record(number, seconds=number // 5, query_text="长" * 500) for number in range(13)))
    log, newest_first = SqlAuditLog(database), [f"i{number}" for number in reversed(range(13))]
    rows, whole = list(log.export()), list(log.export_records())
    assert [row.invocation_id for row in rows] == newest_first == ids(log.page())
    assert {row.query_text for row in rows} == {"长" * 500}
    assert [view.row for view in whole] == rows
    assert whole[0].columns["seq"] == 12


def test_case_121_the_file_equals_the_list(database: Database) -> None:
    texts = ["=1+1", "-2", '断 "路"\n器', None]
    write(database, *(record(n, seconds=n, query_text=text, kb_scope=text) for n, text in enumerate(texts)))
    log, where = SqlAuditLog(database), AuditFilter(until=at(3))
    lines = "".join(export(log, where, Format.CSV)).removeprefix("\ufeff")
    rows = list(csv.DictReader(io.StringIO(lines, newline="")))
    assert [row["invocation_id"] for row in rows] == ids(log.page(where)) == ["i2", "i1", "i0"]
    assert [row["query_text"] for row in rows] == ['断 "路"\n器', "'-2", "'=1+1"]
    records = [json.loads(line) for line in export(log, where, Format.JSONL)]
    assert [(r["invocation_id"], r["query_text"]) for r in records] == [("i2", texts[2]), ("i1", "-2"), ("i0", "=1+1")]


# ------------------------------------------------------------------------------------------------ plans


def plans(database: Database, read: Callable[[], object]) -> list[str]:
    """What the engine says of each statement over the record that ``read`` sends."""
    sent: list[tuple[str, Any]] = []

    def catch(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        sent.append((statement, parameters))

    sa.event.listen(database.engine, "before_cursor_execute", catch)
    read()
    sa.event.remove(database.engine, "before_cursor_execute", catch)
    word = "EXPLAIN QUERY PLAN" if database.sqlite else "EXPLAIN"
    with database.engine.connect() as connection:
        return [
            "\n".join(str(row._mapping) for row in connection.exec_driver_sql(f"{word} {statement}", parameters))
            for statement, parameters in sent
            if "tool_invocation" in statement
        ]


NARROW = {"since": "2026-03-01", "until": "2026-03-02", "status": "ok", "relevance_level": "none"}
BY_INDEX = [
    ({}, "list"),
    ({"since": "2026-03-01", "until": "2026-03-02"}, "list"),
    (NARROW, "status"),
    (NARROW | {"relevance_level": "PRECISE"}, "status"),
    ({"status": "ok"}, "status"),
    ({"status": "ok", "origin": "agent"}, "list"),
    ({"fallback": "FALLBACK_LOW_QUALITY"}, "fallback"),
    ({"session": "s", "status": "ok"}, "session"),
    ({"run": "r"}, "run"),
]


ENDS: list[dict[str, Any]] = [{}, {"oldest": True}, {"before": Cursor(at(100), "7")}, {"after": Cursor(at(0), "7")}]


def test_a_page_is_read_by_an_index_in_its_order(database: Database) -> None:
    write(database, *(record(number, seconds=number, session_id="s", run_id="r") for number in range(200)))
    log = SqlAuditLog(database)
    for params, index in BY_INDEX:
        where = AuditFilter.from_params(params)
        for end in ENDS:
            first, *others = plans(database, lambda: log.page(where, limit=5, **end))  # noqa: B023 - called at once
            assert f"ix_tool_invocation_{index}" in first, (params, end)
            assert not re.search("TEMP B-TREE|filesort|temporary", first), (params, end)
            assert not any("SCAN tool_invocation'" in other for other in others), (params, end)


def test_counts_of_trends_come_from_the_index_alone(database: Database) -> None:
    write(database, *(record(number, seconds=number) for number in range(50)))
    found = plans(database, lambda: SqlAuditLog(database).trends(AuditFilter(status="ok", degraded=False)))
    counts = found[2]
    assert "COVERING INDEX ix_tool_invocation_list" in counts or "Using index" in counts

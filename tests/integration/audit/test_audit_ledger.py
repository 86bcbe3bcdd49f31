import json
import threading
from dataclasses import replace

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.queries import SqlConsoleQueries
from core.adapters.sql.snapshots import SqlSettingsSnapshots
from core.adapters.sql.tables import CANDIDATE_TRACE, EVENT, INVOCATION, QUERY_TRACE, WRITER
from core.adapters.sql.traces import SqlTraces
from core.audit.chain import GENESIS, rows_hash
from core.audit.ledger import Delivery
from core.audit.record import build
from core.audit.trace_rows import trace_hash
from core.audit.verify import verify
from core.errors import BadInput, CheckFailed, RagError, StoreUnavailable
from core.model import AttemptName, Mode, Origin
from tests.integration.audit.audit_world import count, filled, rows
from tests.unit.audit.audit_samples import AT, QUERY, TEXT, entry, failed, record, result, unique


def test_a_record_reads_back_as_it_was_delivered(database: Database) -> None:
    made = build(record(result(origin=Origin.CONSOLE)), content="full")
    assert SqlLedger(database).deliver([made]) == Delivery(new=1)
    (row,) = rows(database)
    assert {name: row[name] for name in made.row} == dict(made.row)
    assert (row["writer"], row["seq"], row["prev_hash"]) == ("main", 1, GENESIS)
    assert made.trace is not None
    (traced,) = rows(database, QUERY_TRACE)
    assert traced == dict(made.trace.trace)
    kept = SqlConsoleQueries(database).get("t-1")
    assert kept is not None
    assert (kept.query, kept.actor) == (QUERY, "ada")
    assert SqlSettingsSnapshots(database).get("f" * 64) == {"rag": {"return_n": 5}}


def test_case_72_emoji_and_rare_characters_come_back_byte_equal(database: Database) -> None:
    asked = "断路器🔥报警"
    whole = result(origin=Origin.CONSOLE, kb_scope="𠮷")
    whole = replace(whole, query=asked)
    SqlLedger(database).deliver([build(record(whole, query=asked), content="full")])
    (row,) = rows(database)
    assert (row["query_text"], row["kb_scope"]) == (asked, "𠮷")
    stored = SqlTraces(database).load("t-1")
    assert stored is not None
    assert (stored.result.query, stored.result.evidence[0].content) == (asked, TEXT)


@pytest.mark.parametrize("chars", [25_000, 2_000_000])  # beyond a plain TEXT column (70 KB), beyond every bound
def test_case_75_long_evidence_and_queries_are_bounded_alike_and_parse(database: Database, chars: int) -> None:
    long, asked = "断路器" * (chars // 3), "问" * 3_000
    whole = replace(result(), query=asked, evidence=(replace(result().evidence[0], content=long),))
    ledger = SqlLedger(database)
    ledger.deliver([build(record(whole, query=asked, actor="𠮷" * 200), content="full")])
    (row,) = rows(database)
    assert (row["query_text"], row["actor"]) == (asked, "𠮷" * 128)
    cut = "raw_result" in row["cut_columns"].split(",")
    assert cut == (chars == 2_000_000)
    kept = json.loads(row["raw_result"])["evidence"][0]["content"]
    assert long.startswith(kept)
    assert (len(kept) < len(long)) == cut
    stored = SqlTraces(database).load("t-1")
    assert stored is not None
    assert stored.cut == cut
    assert verify(ledger).ok


def test_text_that_no_database_takes_is_stored_as_text_that_all_take(database: Database) -> None:
    asked = "nul \x00, half \ud83d, quote ' \" \\ % _ ;--"
    whole = replace(result(origin=Origin.CONSOLE), query=asked)
    ledger = SqlLedger(database)
    ledger.deliver([build(record(whole, query=asked, actor="a\ud83db"), content="full")])
    (row,) = rows(database)
    assert row["query_text"] == asked.replace("\ud83d", "\ufffd")
    assert row["actor"] == "a\ufffdb"
    assert verify(ledger).ok


def test_case_77_moments_keep_their_microseconds_and_order(database: Database) -> None:
    ledger = SqlLedger(database)
    moments = [AT.replace(microsecond=at) for at in (1, 2, 999_999)]
    ledger.deliver([entry(created_at=at) for at in moments])
    assert [row["created_at"] for row in rows(database)] == moments
    since = sa.select(sa.func.count()).where(INVOCATION.c.created_at >= moments[1])
    assert database.read(lambda c: c.execute(since).scalar_one()) == 2


def test_the_same_call_is_recorded_once(database: Database) -> None:
    ledger, made = SqlLedger(database), entry()
    assert ledger.deliver([made, made]) == Delivery(new=1, known=1)
    assert ledger.deliver([made]) == Delivery(known=1)
    assert ledger.deliver([made, entry()]) == Delivery(new=1, known=1)
    assert [row["seq"] for row in rows(database)] == [1, 2]
    assert verify(ledger).ok


def test_nothing_is_left_of_a_delivery_that_fails(database: Database) -> None:
    ledger = filled(database, 1)
    bad = entry()
    with pytest.raises(RagError):
        ledger.deliver([entry(), replace(bad, row={**bad.row, "status": None})])
    assert (count(database), count(database, QUERY_TRACE)) == (1, 1)
    assert verify(ledger).ok


def test_a_record_of_another_version_is_refused_by_name(database: Database) -> None:
    made = entry()
    with pytest.raises(BadInput, match="flavour"):
        SqlLedger(database).deliver([replace(made, row={**made.row, "flavour": "x"})])


def test_a_call_that_failed_has_its_row(database: Database) -> None:
    SqlLedger(database).deliver([entry(failed("StoreUnavailable", "milvus is away"))])
    (row,) = rows(database)
    assert (row["status"], row["error_class"], row["evidence_status"]) == ("error", "StoreUnavailable", "ERROR")


def test_processes_and_threads_share_one_chain(database: Database, database_url: str) -> None:
    others = [connect(database_url) for _ in range(3)]
    errors: list[Exception] = []

    def writes(ledger: SqlLedger) -> None:
        try:
            for _ in range(10):
                ledger.deliver([entry()])
        except Exception as exc:  # noqa: BLE001 - it is what the test looks for
            errors.append(exc)

    threads = [threading.Thread(target=writes, args=(SqlLedger(db),)) for db in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    assert errors == []
    assert [row["seq"] for row in rows(database)] == list(range(1, 31))
    assert verify(SqlLedger(database)).ok


def test_case_82_eight_threads_of_fifty_records_are_four_hundred_rows(database: Database) -> None:
    ledger, errors, done = SqlLedger(database), [], threading.Event()

    def guarded(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except Exception as exc:  # noqa: BLE001 - it is what the test looks for
            errors.append(exc)

    def writes() -> None:
        for _ in range(50):
            ledger.deliver([entry()])

    def reads() -> None:
        while not done.is_set():
            SqlTraces(database).list(limit=5)

    reader = threading.Thread(target=guarded, args=(reads,))
    writers = [threading.Thread(target=guarded, args=(writes,)) for _ in range(8)]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert errors == []
    assert count(database) == 8 * 50
    assert verify(ledger, deep=False).ok


@pytest.mark.mariadb
def test_case_73_a_connection_killed_between_two_records_costs_no_record(mariadb_url: str) -> None:
    database = connect(mariadb_url)
    ledger = filled(database, 1)
    kill = "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    killer = connect(mariadb_url)
    found = killer.read(lambda c: c.execute(sa.text(kill)).scalar_one())
    for number in found.split(","):
        killer.read(lambda c, n=number: c.execute(sa.text(f"KILL {int(n)}")))
    killer.close()
    assert ledger.deliver([entry()]) == Delivery(new=1)
    assert count(database) == 2
    assert verify(ledger).ok
    database.close()


@given(
    scores=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=5),
    ms=st.floats(min_value=0, max_value=1e9),
    quality=st.floats(min_value=0, max_value=1),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_come_back_exactly_so_that_hashes_stay_true(
    database: Database, scores: list[float], ms: float, quality: float
) -> None:
    (attempt,) = result().retrieval_trace.attempts
    base = attempt.candidates[0]
    found = tuple(
        replace(base, evidence_key=f"a#chunk-{n}", dense_distance=score, rrf_score=score / 3)
        for n, score in enumerate(scores)
    )
    whole = replace(result(attempts=(replace(attempt, candidates=found),)), top_quality=quality)
    times = replace(whole.retrieval_trace.timings, total_ms=ms)
    whole = replace(whole, retrieval_trace=replace(whole.retrieval_trace, timings=times))
    ledger, made = SqlLedger(database), entry(whole)
    ledger.deliver([made])
    row = ledger.record(made.invocation_id)
    assert row is not None
    assert ledger.hasher.row(row) == row["row_hash"]
    attached = ledger.attached([row])
    assert trace_hash(attached.traces[row["trace_id"]]) == row["trace_sha256"]
    assert rows_hash(attached.events[row["invocation_id"]]) == row["events_sha256"]


# --------------------------------------------------------------------------------------------- traces


def test_a_redacted_trace_has_keys_and_ranks_and_no_text(database: Database) -> None:
    traces = SqlTraces(database)
    traces.save(result())
    stored = traces.load("t-1")
    assert stored is not None
    assert (stored.content, stored.query_chars, stored.cut) == ("redacted", len(QUERY), False)
    assert stored.result.query == ""
    assert stored.result.evidence[0].evidence_key == "a#chunk-0"
    kept = [(c.evidence_key, c.dense_rank, c.bm25_rank) for c in stored.result.retrieval_trace.attempts[0].candidates]
    assert kept == [("a#chunk-0", 1, 2), ("b#chunk-4", None, 1)]
    assert stored.created_at == AT


def test_candidates_have_a_row_a_branch_with_the_branches_own_rank(database: Database) -> None:
    SqlTraces(database).save(result())
    kept = {(r["chunk_id"], r["retriever"]): r for r in rows(database, CANDIDATE_TRACE)}
    assert set(kept) == {("a#chunk-0", "dense"), ("a#chunk-0", "bm25"), ("b#chunk-4", "bm25")}
    dense = kept["a#chunk-0", "dense"]
    assert (dense["original_rank"], dense["original_score"], dense["fused_rank"]) == (1, 0.25, 1)
    assert (dense["context_rank"], dense["selected"], dense["drop_reason"]) == (1, True, None)
    assert (kept["b#chunk-4", "bm25"]["selected"], kept["b#chunk-4", "bm25"]["drop_reason"]) == (False, "return_limit")
    assert dense["attempt"] == AttemptName.UNFILTERED_VECTOR


def test_saving_a_trace_twice_changes_nothing(database: Database) -> None:
    traces = SqlTraces(database)
    traces.save(result())
    traces.save(result(mode=Mode.DENSE))
    stored = traces.load("t-1")
    assert stored is not None
    assert stored.result.retrieval_trace.mode is Mode.HYBRID


def test_the_record_takes_the_place_of_a_trace_that_was_saved_before(database: Database) -> None:
    ledger = SqlLedger(database)
    SqlTraces(database).save(result(mode=Mode.DENSE))
    ledger.deliver([build(record(), content="redacted")])
    assert verify(ledger).ok


def test_an_unknown_trace_is_none_and_a_changed_one_is_said_so(database: Database) -> None:
    traces = SqlTraces(database)
    assert traces.load("nobody") is None
    traces.save(result())
    database.write(lambda c: c.execute(QUERY_TRACE.update().values(trace_json="{")))
    with pytest.raises(CheckFailed, match="audit verify"):
        traces.load("t-1")


def test_traces_are_listed_newest_first_page_by_page(database: Database) -> None:
    made = [entry(created_at=AT.replace(microsecond=at // 2)) for at in range(5)]  # two pairs of the same moment
    SqlLedger(database).deliver(made)
    traces = SqlTraces(database)
    assert traces.list(session_id="other").rows == ()
    pages, before = [], None
    while True:
        page = traces.list(session_id="s-1", run_id="r-1", limit=2, before=before)
        pages.append([row.trace_id for row in page.rows])
        if page.cursor is None:
            break
        before = page.cursor
    assert [len(page) for page in pages] == [2, 2, 1]
    order = sorted(made, key=lambda e: (e.row["created_at"], e.row["trace_id"]), reverse=True)
    assert [name for page in pages for name in page] == [e.row["trace_id"] for e in order]
    with pytest.raises(BadInput, match="limit"):
        traces.list(limit=0)


def test_the_events_of_a_session_come_in_order_of_time(database: Database) -> None:
    later, earlier = entry(created_at=AT.replace(second=9)), entry(created_at=AT)
    SqlLedger(database).deliver([later, earlier])
    events = SqlTraces(database).events(session_id="s-1")
    assert [e.created_at for e in events] == sorted(e.created_at for e in events)
    assert events[0].invocation_id == earlier.invocation_id
    assert events[0].attributes["tool"] == "lookup_knowledge"
    assert SqlTraces(database).events(trace_id="nobody") == ()
    with pytest.raises(BadInput, match="session"):
        SqlTraces(database).events()


def test_without_its_tables_the_database_is_one_that_cannot_be_used(sql_url: str) -> None:
    database = connect(sql_url)
    ledger = SqlLedger(database)
    with pytest.raises(StoreUnavailable, match="prepare"):
        ledger.deliver([entry()])
    ledger.prepare()
    assert ledger.deliver([entry()]) == Delivery(new=1)
    database.close()


def test_many_records_of_one_console_session_keep_all_their_questions(database: Database) -> None:
    ledger = SqlLedger(database)
    ledger.deliver([build(unique(origin=Origin.CONSOLE, query=f"q{n}"), content="redacted") for n in range(3)])
    assert sorted(q.query for q in SqlConsoleQueries(database).recent().rows) == ["q0", "q1", "q2"]
    assert count(database, EVENT) == 3 * 8
    assert rows(database, WRITER)[0]["seq"] == 3


def test_two_writers_take_turns_on_one_chain(database: Database) -> None:
    ledgers, entries = [SqlLedger(database), SqlLedger(database)], [entry() for _ in range(7)]
    for number in range(6):
        assert ledgers[number % 2].deliver([entries[number]]) == Delivery(new=1)
    assert ledgers[0].deliver([entries[5]]) == Delivery(known=1)  # the other one's
    assert ledgers[1].deliver([entries[6]]) == Delivery(new=1)
    assert [row["seq"] for row in rows(database)] == [1, 2, 3, 4, 5, 6, 7]
    assert verify(ledgers[0]).ok


def test_a_head_that_was_set_back_is_followed_not_the_one_remembered(database: Database) -> None:
    ledger = SqlLedger(database)
    ledger.deliver([entry()])
    database.write(lambda c: [c.execute(table.delete()) for table in (WRITER, INVOCATION, EVENT, QUERY_TRACE)])
    ledger.deliver([entry()])
    (row,) = rows(database)
    assert (row["seq"], row["prev_hash"]) == (1, GENESIS)

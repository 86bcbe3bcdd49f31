import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import errors
from core.adapters.sql.tables import CANDIDATE_TRACE, EVENT, INVOCATION, QUERY_TRACE
from core.audit import columns
from core.audit.bounds import bounded_json, cut, number, whole
from core.audit.columns import INVOCATION_CHARS, Status
from core.audit.entry import dump, parse
from core.audit.language import language
from core.audit.record import build, status_of
from core.audit.trace_rows import key_text
from core.codec import from_json
from core.model import AttemptName, DropReason, FallbackReason, LookupResult, Origin, StageStatus
from tests.unit.audit.audit_samples import AT, QUERY, TEXT, TITLE, candidate, failed, record, result

CHAIN = {"id", "writer", "seq", "prev_hash", "row_hash", "hash_version", "recorded_at"}


def row_of(**fields: object) -> dict[str, object]:
    return dict(build(record(result(**fields)), content="redacted").row)  # type: ignore[arg-type]


def test_every_column_but_those_of_the_chain_is_given() -> None:
    assert set(row_of()) == {column.name for column in INVOCATION.columns} - CHAIN


def test_events_and_traces_fit_their_tables() -> None:
    made = build(record(), content="redacted")
    assert made.trace is not None
    assert {name for event in made.events for name in event} == {c.name for c in EVENT.columns} - {"id"}
    assert set(made.trace.trace) == {c.name for c in QUERY_TRACE.columns}
    assert {name for row in made.trace.candidates for name in row} == {c.name for c in CANDIDATE_TRACE.columns}


def test_the_row_says_who_asked_what_came_and_by_what() -> None:
    row = row_of()
    expected = {
        "invocation_id": "i-1",
        "tool_name": "lookup_knowledge",
        "created_at": AT,
        "origin": "agent",
        "actor": "ada",
        "session_id": "s-1",
        "run_id": "r-1",
        "trace_id": "t-1",
        "status": "ok",
        "error_class": None,
        "evidence_status": "READY",
        "relevance_level": "PRECISE",
        "selected_attempt": "UNFILTERED_VECTOR",
        "fallback_reason": None,
        "language": "zh",
        "generation": 7,
        "candidate_count": 2,
        "returned_count": 1,
        "unique_sources": 2,
        "quality_gap": 0.9 - 0.6,
        "overlap_at_10": 1 / 2,
        "total_ms": 12.0,
        "dense_ms": 3.0,
        "rerank_ms": None,
        "query_chars": len(QUERY),
        "query_text": None,
        "content": "redacted",
        "cut": False,
    }
    assert {name: row[name] for name in expected} == expected


def test_numbers_that_nobody_knows_are_null() -> None:
    row = dict(build(record(failed("StoreUnavailable", "milvus is away")), content="redacted").row)
    names = ("unique_sources", "quality_gap", "overlap_at_10", "top_quality", "pack_dropped")
    assert {row[name] for name in names} == {None}
    assert (row["status"], row["error_class"], row["error_message"]) == ("error", "StoreUnavailable", "milvus is away")


def test_overlap_is_null_when_a_branch_did_not_answer() -> None:
    (attempt,) = result().retrieval_trace.attempts
    dead = replace(attempt.branches[1], status=StageStatus.ERROR)
    assert row_of(attempts=(replace(attempt, branches=(attempt.branches[0], dead)),))["overlap_at_10"] is None


def test_stale_chunks_and_scope_violations_of_all_attempts_are_counted() -> None:
    (attempt,) = result().retrieval_trace.attempts
    stale = candidate(drop_reason=DropReason.STALE_REVISION)
    attempt = replace(attempt, candidates=(stale,), scope_violations=2)
    row = row_of(attempts=(attempt, replace(attempt, scope_violations=1)))
    assert (row["stale_count"], row["scope_violations"]) == (1 + 1, 2 + 1)


@pytest.mark.parametrize(
    ("error_class", "status"),
    [
        (None, Status.OK),
        ("InvalidQuery", Status.REFUSED),
        ("NotAllowed", Status.REFUSED),
        ("DeadlineExceeded", Status.TIMEOUT),
        ("StoreUnavailable", Status.ERROR),
        ("RagError", Status.ERROR),
        ("NoSuchError", Status.ERROR),
        ("redact", Status.ERROR),
    ],
)
def test_an_error_class_is_one_of_four_outcomes(error_class: str | None, status: Status) -> None:
    assert status_of(error_class) is status


def test_every_error_of_ours_has_an_outcome() -> None:
    names = [name for name in errors.__all__ if name != "redact"]
    assert {status_of(name) for name in names} == {Status.REFUSED, Status.TIMEOUT, Status.ERROR}


# --------------------------------------------------------------------------------------------- content


@pytest.mark.parametrize("content", ["redacted", "none"])
def test_nothing_delivered_holds_a_word_of_query_or_document(content: str) -> None:
    text = dump(build(record(), content=content)).decode()
    assert [word for word in (QUERY, TEXT, TITLE, "断路器", "OutOfMemory") if word in text] == []


def test_redacted_keeps_the_answer_by_hash_and_none_keeps_none() -> None:
    redacted, none = (build(record(), content=content).row for content in ("redacted", "none"))
    assert json.loads(redacted["agent_result"])["evidence"][0]["excerpt"]["chars"] == len(TEXT)
    assert (redacted["raw_result"], none["agent_result"], none["raw_result"]) == (None, None, None)


def test_full_keeps_what_came_and_what_the_agent_saw() -> None:
    made = build(record(), content="full")
    assert from_json(LookupResult, made.row["raw_result"]) == result()
    assert json.loads(made.row["agent_result"])["evidence"][0]["excerpt"] == TEXT
    assert made.row["query_text"] == QUERY
    assert QUERY.lower() in made.row["search_text"]


def test_a_stored_trace_reads_back_and_candidates_never_carry_text() -> None:
    made = build(record(), content="full")
    assert made.trace is not None
    kept = from_json(LookupResult, made.trace.trace["trace_json"])
    assert kept.evidence == result().evidence
    assert [c.content for c in kept.retrieval_trace.attempts[0].candidates] == [None, None]


@pytest.mark.parametrize("content", ["redacted", "full", "none"])
def test_a_secret_of_the_settings_is_in_no_part(content: str) -> None:
    secret = 'pa"ss-canary'
    whole = failed("StoreUnavailable", f"login {secret} refused")
    made = build(record(whole), content=content, secrets=(secret,))
    assert "canary" not in dump(made).decode()


# --------------------------------------------------------------------------------------------- console


def test_only_a_console_lookup_leaves_its_question() -> None:
    for origin in Origin:
        kept = build(record(result(origin=origin)), content="none").console_query
        assert (kept is not None) == (origin is Origin.CONSOLE)
    kept = build(record(result(origin=Origin.CONSOLE)), content="none").console_query
    assert kept is not None
    assert (kept["query"], kept["trace_id"], kept["actor"]) == (QUERY, "t-1", "ada")
    off = build(record(result(origin=Origin.CONSOLE)), content="none", console_queries=False)
    assert off.console_query is None


# --------------------------------------------------------------------------------------------- widths


def test_case_75_every_text_is_cut_in_characters_and_named() -> None:
    long = "𠮷" * 600
    whole = failed("StoreUnavailable", long, session_id=long, kb_scope=long)
    row = build(record(whole, invocation_id="i", actor=long), content="redacted").row
    for name, width in INVOCATION_CHARS.items():
        assert row[name] is None or len(row[name]) <= width
    assert row["session_id"] == "𠮷" * INVOCATION_CHARS["session_id"]
    assert row["cut"] is True
    assert set(row["cut_columns"].split(",")) == {"actor", "session_id", "kb_scope", "error_message"}


def test_case_75_large_content_is_shortened_as_data_and_still_parses() -> None:
    long = "断路器" * columns.JSON_BYTES
    piece = replace(result().evidence[0], content=long)
    made = build(record(replace(result(), evidence=(piece,))), content="full")
    assert len(made.row["raw_result"].encode()) <= columns.JSON_BYTES
    kept = from_json(LookupResult, made.row["raw_result"])
    assert long.startswith(kept.evidence[0].content)
    assert "raw_result" in made.row["cut_columns"]
    assert made.trace is not None
    assert made.trace.trace["cut"] is True
    assert from_json(LookupResult, made.trace.trace["trace_json"]).trace_id == "t-1"


def test_case_75_a_query_that_is_too_long_is_cut_and_its_length_kept() -> None:
    long = "问" * (columns.QUERY_CHARS + 1)
    row = build(record(query=long), content="full").row
    assert row["query_text"] == "问" * columns.QUERY_CHARS
    assert row["query_chars"] == columns.QUERY_CHARS + 1
    assert "query_text" in row["cut_columns"]


def test_lists_and_strings_are_shortened_only_as_far_as_needed() -> None:
    value = {"a": "x" * 30_000, "b": list(range(50)), "c": None}
    text, was_cut = bounded_json(value, 25_000)
    assert was_cut
    assert json.loads(text) == {"a": "x" * 20_000, "b": list(range(50)), "c": None}
    assert bounded_json(value) == (json.dumps(value, separators=(",", ":")), False)
    assert json.loads(bounded_json(dict.fromkeys(map(str, range(1000)), 1), 100)[0]) == {"cut": True, "bytes": 7891}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
@settings(max_examples=60, deadline=None)
def test_bounded_json_always_parses_and_fits(value: object) -> None:
    text, _ = bounded_json(value, 120)
    json.loads(text)
    assert len(text.encode()) <= 120


def test_values_that_no_database_takes_become_values_that_all_take() -> None:
    assert cut("a\ud83db", 2) == "a\ufffd"
    assert cut(None, 2) is None
    assert (number(float("nan")), number(float("inf")), number(None)) == (None, None, None)
    assert str(number(-0.0)) == "0.0"
    assert (whole(2**40), whole(-(2**40)), whole(None)) == (2**31 - 1, -(2**31 - 1), None)


def test_a_key_that_is_too_long_stays_unique() -> None:
    one, two = (f"{'路' * 600}{end}#chunk-0" for end in "ab")
    assert len(key_text(one)) == columns.KEY_CHARS
    assert key_text(one) != key_text(two)
    assert key_text("a#chunk-0") == "a#chunk-0"


# --------------------------------------------------------------------------------------------- events, language, files


def test_events_tell_the_run_in_order_of_time() -> None:
    events = build(record(), content="redacted").events
    assert [(e["sequence"], e["event_type"]) for e in events] == [
        (1, "lookup.started"),
        (2, "stage.transform"),
        (3, "stage.dense"),
        (4, "stage.bm25"),
        (5, "stage.fuse"),
        (6, "attempt.finished"),
        (7, "stage.pack"),
        (8, "lookup.finished"),
    ]
    after = [round((e["created_at"] - AT) / timedelta(milliseconds=1), 6) for e in events]
    assert after == [0, 2, 2 + 3, 2 + 5, 2 + 5 + 1, 2 + 5 + 1, 2 + 5 + 1 + 0.5, 12]
    assert (events[2]["count_in"], events[2]["count_out"], events[2]["ms"]) == (20, 1, 3.0)


def test_a_fallback_is_an_event_between_its_attempts() -> None:
    (attempt,) = result().retrieval_trace.attempts
    first = replace(attempt, name=AttemptName.FILTERED_VECTOR, stages=(), candidates=())
    second = replace(attempt, name=AttemptName.UNFILTERED_VECTOR_RETRY, stages=())
    whole = result(attempts=(first, second), fallback_reason=FallbackReason.LOW_QUALITY, stages=())
    events = build(record(whole), content="redacted").events
    kinds = [(e["event_type"], e["attempt"]) for e in events]
    assert kinds[1:4] == [
        ("attempt.finished", "FILTERED_VECTOR"),
        ("lookup.fallback", "UNFILTERED_VECTOR_RETRY"),
        ("attempt.finished", "UNFILTERED_VECTOR_RETRY"),
    ]
    assert json.loads(events[2]["attributes"]) == {"reason": "FALLBACK_LOW_QUALITY"}


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("redis 连接池耗尽怎么排查", "zh"),  # 10 Han, 1 word: 1/11 < 0.2
        ("KubePodCrashLooping 怎么处理", "mixed"),  # 4 Han, 1 word: 1/5
        ("how to drain a node", "en"),
        ("502 504", "other"),
        ("", "other"),
    ],
)
def test_the_language_is_guessed_by_the_smaller_share(text: str, guess: str) -> None:
    assert language(text) == guess


@pytest.mark.parametrize("content", ["redacted", "full", "none"])
def test_an_entry_reads_back_from_its_file_equal(content: str) -> None:
    made = build(record(result(origin=Origin.CONSOLE)), content=content)
    assert parse(dump(made)) == made


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"row": 1}', b"\xff", b"null"])
def test_what_is_no_entry_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse(data)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        build(record(created_at=datetime(2026, 1, 1)), content="redacted")
    assert build(record(created_at=datetime(2026, 1, 1, tzinfo=UTC)), content="redacted").row["created_at"].year == 2026

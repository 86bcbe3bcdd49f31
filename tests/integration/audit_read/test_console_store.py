"""Questions of the console, settings behind a fingerprint, evaluation runs: on both engines."""

from datetime import UTC, datetime, timedelta

import pytest

from core.adapters.sql.engine import Database, connect
from core.adapters.sql.evals import SqlEvals
from core.adapters.sql.queries import SqlConsoleQueries
from core.adapters.sql.snapshots import SqlSettingsSnapshots
from core.errors import BadInput
from core.stores import ConsoleQuery, EvalCaseResult, EvalRun, Page

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def ask(trace_id: str, text: str = "redis 连接池", *, seconds: float = 0, actor: str = "") -> ConsoleQuery:
    return ConsoleQuery(trace_id, text, NOON + timedelta(seconds=seconds), actor=actor)


def ids(page: Page[ConsoleQuery]) -> list[str]:
    return [row.trace_id for row in page.rows]


def test_a_question_comes_back_as_it_was_asked(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    asked = ConsoleQuery(
        "t1",
        "断路器🔥报警 𠮷\n=1+1",
        NOON.replace(microsecond=1),
        "hybrid",
        "default",
        "ops",
        "s1",
        "READY",
        "PRECISE",
        3,
        {"return_n": 8, "rerank": False},
    )
    queries.add(asked)
    assert queries.get("t1") == asked
    assert queries.get("t2") is None
    assert queries.recent().rows == (asked,)


def test_the_same_trace_twice_changes_nothing(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    queries.add(ask("t1", "first"))
    queries.add(ask("t1", "second"))
    assert [row.query for row in queries.recent().rows] == ["first"]


def test_an_empty_history_is_a_page_without_rows(database: Database) -> None:
    assert SqlConsoleQueries(database).recent() == Page((), None)
    with pytest.raises(BadInput, match="limit"):
        SqlConsoleQueries(database).recent(limit=0)


def test_pages_of_equal_times_hold_every_question_once(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    for number in range(7):
        queries.add(ask(f"t{number}", seconds=number // 3))
    seen: list[str] = []
    page = queries.recent(limit=2)
    seen += ids(page)
    while page.cursor is not None:
        page = queries.recent(limit=2, before=page.cursor)
        seen += ids(page)
    assert seen == [f"t{number}" for number in reversed(range(7))]


def test_a_text_is_found_in_any_case_and_its_wildcards_mean_themselves(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    for trace_id, text in {
        "a": "Redis OOM",
        "b": "100% CPU",
        "c": "ÉTAT du cluster",
        "d": "a_b",
        "e": "aXb 连接池",
    }.items():
        queries.add(ask(trace_id, text))
    assert ids(queries.recent(text="redis oom")) == ["a"]
    assert ids(queries.recent(text="0%")) == ["b"]
    assert ids(queries.recent(text="éTAT")) == ["c"]
    assert ids(queries.recent(text="A_B")) == ["d"]
    assert ids(queries.recent(text="连接")) == ["e"]
    assert ids(queries.recent(text="nowhere")) == []


def test_the_questions_of_one_person(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    queries.add(ask("t1", actor="ann"))
    queries.add(ask("t2", actor="bob"))
    assert ids(queries.recent(actor="ann")) == ["t1"]
    assert ids(queries.recent(actor="bob", text="CONN")) == []


def test_case_75_a_question_longer_than_the_column_is_cut(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    queries.add(ask("t1", "断" * 8_001, actor="x" * 200))
    stored = queries.get("t1")
    assert stored is not None
    assert (len(stored.query), len(stored.actor)) == (8_000, 128)


def test_pruning_removes_what_is_older_and_says_how_many(database: Database) -> None:
    queries = SqlConsoleQueries(database)
    queries.add(ask("old", seconds=-1))
    queries.add(ask("edge"))
    assert queries.prune(days=30, now=NOON + timedelta(days=30)) == 1
    assert ids(queries.recent()) == ["edge"]
    assert queries.prune(days=30, now=NOON) == 0


def test_case_80_a_question_of_another_process_appears_at_once(database: Database, database_url: str) -> None:
    queries = SqlConsoleQueries(database)
    assert queries.recent().rows == ()
    other = connect(database_url)
    SqlConsoleQueries(other).add(ask("t1"))
    other.close()
    assert ids(queries.recent()) == ["t1"]


# ------------------------------------------------------------------------------------------------ settings


def test_settings_are_stored_once_a_fingerprint(database: Database) -> None:
    snapshots = SqlSettingsSnapshots(database)
    assert snapshots.get("f1") is None
    snapshots.put("f1", {"rag": {"return_n": 5}, "name": "知识"})
    snapshots.put("f1", {"rag": {"return_n": 6}})
    assert snapshots.get("f1") == {"rag": {"return_n": 5}, "name": "知识"}


# ------------------------------------------------------------------------------------------------ evaluation


def run(run_id: str, *, seconds: float = 0, kind: str = "offline", passed: int = 1) -> EvalRun:
    moment = NOON + timedelta(seconds=seconds)
    return EvalRun(
        run_id, kind, moment, "hybrid", "标签", "fp", 2, "e5", "snap", 2, passed, 2 - passed, {"recall": 0.5}
    )


CASES = (
    EvalCaseResult("b", "FAILED", False, None, None, "RETRIEVAL_MISS", "t1", {"why": "没有"}),
    EvalCaseResult("a", "PASSED", True, "fused", 1),
)


def test_a_run_comes_back_with_its_cases_by_id(database: Database) -> None:
    evals = SqlEvals(database)
    evals.save(run("r1"), CASES)
    assert evals.get("r1") == run("r1")
    assert evals.cases("r1") == [CASES[1], CASES[0]]
    assert evals.get("r2") is None
    assert evals.cases("r2") == []


def test_saving_a_run_again_replaces_it_with_its_cases(database: Database) -> None:
    evals = SqlEvals(database)
    evals.save(run("r1"), CASES)
    evals.save(run("r1", passed=2), CASES[:1])
    assert evals.get("r1") == run("r1", passed=2)
    assert evals.cases("r1") == [CASES[0]]


def test_a_run_whose_cases_cannot_be_stored_leaves_the_old_one(database: Database) -> None:
    evals = SqlEvals(database)
    evals.save(run("r1"), CASES)
    with pytest.raises(Exception, match="contradicts"):
        evals.save(run("r1", passed=2), (CASES[0], CASES[0]))
    assert evals.get("r1") == run("r1")
    assert len(evals.cases("r1")) == 2


def test_runs_are_listed_newest_first_by_kind_and_page_without_their_reports(database: Database) -> None:
    evals = SqlEvals(database)
    for number in range(5):
        evals.save(run(f"r{number}", seconds=number // 2, kind="live" if number == 4 else "offline"), ())
    first = evals.list(limit=3)
    assert [r.run_id for r in first.rows] == ["r4", "r3", "r2"]
    assert [r.data for r in first.rows] == [{}] * 3
    assert [r.run_id for r in evals.list(limit=3, before=first.cursor).rows] == ["r1", "r0"]
    assert [r.run_id for r in evals.list(kind="live").rows] == ["r4"]
    assert evals.list(kind="none") == Page((), None)


def test_a_deleted_run_is_gone_with_its_cases(database: Database) -> None:
    evals = SqlEvals(database)
    evals.save(run("r1"), CASES)
    evals.delete("r1")
    evals.delete("r1")
    assert evals.get("r1") is None
    assert evals.cases("r1") == []

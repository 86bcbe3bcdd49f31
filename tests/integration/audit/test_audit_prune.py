import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import Database
from core.adapters.sql.tables import CANDIDATE_TRACE, CONSOLE_QUERY, EVENT, INVOCATION, PRUNE, QUERY_TRACE
from core.adapters.sql.traces import SqlTraces
from core.audit import prune as pruning
from core.audit.prune import PruneOutcome, prune
from core.audit.verify import verify
from core.errors import BadInput, Busy, CheckFailed
from core.model import Origin
from tests.integration.audit.audit_world import check, count, remove_row, row_at, rows, set_row, tamper
from tests.unit.audit.audit_samples import AT, entry, result

DAY = timedelta(days=1)


def days(database: Database, *numbers: int, key: str = "") -> SqlLedger:
    """One record a number, created so many days after AT, in the order given."""
    ledger = SqlLedger(database, key=key)
    ledger.deliver([entry(created_at=AT + n * DAY, origin=Origin.CONSOLE) for n in numbers])
    return ledger


@pytest.mark.parametrize("key", ["", "a key"])
def test_what_is_older_goes_with_all_that_belongs_to_it_and_the_chain_still_proves_the_rest(
    database: Database, key: str
) -> None:
    ledger = days(database, 0, 1, 2, 3, key=key)
    outcome = prune(ledger, AT + 2 * DAY, "ada")
    assert (outcome.rows, len(outcome.records)) == (2, 1)
    assert [row["seq"] for row in rows(database)] == [3, 4, 5]
    for table in (QUERY_TRACE, CONSOLE_QUERY):
        assert count(database, table) == 2
    assert count(database, CANDIDATE_TRACE) == 2 * 3
    assert count(database, EVENT) == 2 * 8
    report = verify(ledger)
    assert (report.ok, report.rows, report.pruned) == (True, 3, 2)


def test_the_pruning_is_itself_a_record(database: Database) -> None:
    ledger = days(database, 0, 1)
    prune(ledger, AT + DAY, "ada", origin=Origin.CONSOLE)
    row = row_at(database, 3)
    expected = {"tool_name": "audit_prune", "actor": "ada", "origin": "console", "status": "ok"}
    assert {name: row[name] for name in expected} == expected
    assert json.loads(row["details"])["rows"] == 1
    assert row["created_at"] <= datetime.now(UTC)


def test_nothing_older_leaves_nothing_behind(database: Database) -> None:
    ledger = days(database, 5)
    assert prune(ledger, AT, "ada") == PruneOutcome(0, 0, AT)
    assert (count(database), count(database, PRUNE)) == (1, 0)
    assert prune(SqlLedger(database, key="never used"), AT, "ada").rows == 0


def test_pruning_again_takes_the_older_record_of_it_into_the_newer_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", 2)
    ledger = days(database, *range(5))
    first = prune(ledger, AT + 5 * DAY, "ada", now=lambda: AT + 6 * DAY)
    assert (first.rows, len(first.records)) == (5, 3)
    ledger.deliver([entry(created_at=AT + 7 * DAY)])
    prune(ledger, AT + 7 * DAY, "bob", now=lambda: AT + 8 * DAY)  # the first records of pruning are old themselves
    (only,) = rows(database, PRUNE)
    assert (only["first_seq"], only["who"]) == (1, "bob")
    assert check(ledger) == set()


def test_records_that_were_delivered_late_leave_gaps_that_are_excused(database: Database) -> None:
    ledger = days(database, 9, 0, 8, 1, 1, 7)
    prune(ledger, AT + 2 * DAY, "ada", now=lambda: AT + 10 * DAY)
    assert [(r["first_seq"], r["last_seq"]) for r in rows(database, PRUNE)] == [(2, 2), (4, 5)]
    assert check(ledger) == set()
    prune(ledger, AT + 9 * DAY, "ada", now=lambda: AT + 10 * DAY)
    assert [(r["first_seq"], r["last_seq"]) for r in rows(database, PRUNE)] == [(2, 6)]
    assert check(ledger) == set()


def test_tampering_beside_what_was_pruned_is_still_found(database: Database) -> None:
    ledger = days(database, 0, 1, 5, 6, 7)
    prune(ledger, AT + 2 * DAY, "ada")
    assert check(ledger) == set()
    tamper(database, set_row(3, actor="x"))
    assert check(ledger) == {("changed", 3, 3)}
    tamper(database, remove_row(3))
    assert check(ledger) == {("removed", 3, 3)}


def test_a_pruned_row_that_comes_back_and_a_pruning_that_is_forgotten_are_found(database: Database) -> None:
    ledger = days(database, 0, 1, 5)
    old = row_at(database, 2)
    prune(ledger, AT + 2 * DAY, "ada")
    tamper(database, INVOCATION.insert().values(old))
    assert ("inserted", 2, 2) in check(ledger)
    tamper(database, remove_row(2), PRUNE.delete())
    assert check(ledger) == {("removed", 1, 2)}


def test_a_pruning_does_not_excuse_more_than_it_took(database: Database) -> None:
    ledger = days(database, 0, 1, 5, 6)
    prune(ledger, AT + 2 * DAY, "ada")
    tamper(database, remove_row(3), PRUNE.update().values(last_seq=3, last_hash=row_at(database, 3)["row_hash"]))
    assert check(ledger) == {("removed", 1, 3)}


def test_a_gap_that_somebody_else_made_stays_a_gap(database: Database) -> None:
    ledger = days(database, 0, 1, 2, 5)
    tamper(database, remove_row(2))
    prune(ledger, AT + 3 * DAY, "ada")
    assert check(ledger) == {("removed", 2, 2)}


@pytest.mark.parametrize("values", [{"actor": "x"}, {"prev_hash": "0" * 64}])
def test_a_changed_row_is_evidence_and_goes_only_by_force(database: Database, values: dict[str, Any]) -> None:
    ledger = days(database, 0, 1, 5)
    tamper(database, set_row(2, **values))
    with pytest.raises(CheckFailed, match="row 2 of main"):
        prune(ledger, AT + 2 * DAY, "ada")
    assert count(database) == 3
    assert prune(ledger, AT + 2 * DAY, "ada", force=True).rows == 2


def test_traces_that_no_record_goes_with_grow_old_too(database: Database) -> None:
    SqlTraces(database).save(result())
    ledger = days(database, 5)
    assert prune(ledger, AT, "ada").traces == 0
    assert prune(ledger, AT + DAY, "ada").traces == 1
    assert (count(database, QUERY_TRACE), count(database, CANDIDATE_TRACE)) == (1, 3)


def test_rows_that_somebody_else_removed_meanwhile_stop_the_step(database: Database) -> None:
    ledger = days(database, 0)
    taken = ledger.older_than("main", AT + DAY, 10)
    tamper(database, remove_row(1))
    with pytest.raises(Busy):
        ledger.prune(taken, [], entry(), before=AT, who="ada")
    assert count(database) == 0


def test_what_is_no_moment_of_the_past_is_refused(database: Database) -> None:
    ledger = SqlLedger(database)
    with pytest.raises(BadInput, match="zone"):
        prune(ledger, datetime(2026, 1, 1), "ada")
    with pytest.raises(BadInput, match="future"):
        prune(ledger, datetime.now(UTC) + DAY, "ada")

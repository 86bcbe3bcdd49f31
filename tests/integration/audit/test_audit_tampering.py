"""Somebody with access to the database changes the record; verification says what."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from core.adapters.sql import audit as sql_audit
from core.adapters.sql.audit import SqlLedger
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.schema import upgrade
from core.adapters.sql.tables import CANDIDATE_TRACE, EVENT, INVOCATION, PRUNE, QUERY_TRACE, WRITER
from core.audit.chain import GENESIS, Hasher
from core.audit.verify import verify
from tests.integration.audit.audit_world import (
    check,
    filled,
    orphans,
    remove_row,
    row_at,
    rows,
    set_head,
    set_row,
    strange_changes,
    tamper,
)
from tests.unit.audit.audit_samples import entry

KEYS = pytest.mark.parametrize("key", ["", "a key"])


@KEYS
def test_what_belongs_to_no_record_is_named_with_the_id_it_names(database: Database, key: str) -> None:
    ledger = filled(database, 3, key=key)
    row = row_at(database, 2)
    tamper(database, remove_row(2))
    tamper(database, CANDIDATE_TRACE.update().where(CANDIDATE_TRACE.c.trace_id == row["trace_id"]).values(trace_id="x"))
    found = {(finding.invocation_id, finding.what.split()[0]) for finding in orphans(ledger)}
    assert found == {(row["trace_id"], "trace"), ("x", "candidates"), (row["invocation_id"], "events")}


def test_a_record_that_was_emptied_leaves_what_belonged_to_it(database: Database, monkeypatch: Any) -> None:
    monkeypatch.setattr(sql_audit, "SPAN", 2)  # in several spans
    ledger = filled(database, 5)
    kept = {(row["trace_id"], row["invocation_id"]) for row in rows(database)}
    tamper(database, INVOCATION.delete())
    tamper(database, WRITER.delete())
    report = verify(ledger)
    assert (report.ok, report.rows) == (False, 0)
    named = [finding.invocation_id for finding in orphans(ledger)]
    assert sorted(named) == sorted(name for pair in kept for name in pair)
    assert "without a record" in str(report.findings[0])


PLACES = [
    (INVOCATION, "seq = 2"),
    (EVENT, "id = 3"),
    (QUERY_TRACE, "rowid = 2"),
    (CANDIDATE_TRACE, "rowid = 2"),
    (WRITER, "1"),
]
FREE = {
    ("tool_invocation", "id"),
    ("diagnosis_event", "id"),
    ("audit_writer", "created_at"),
    ("audit_writer", "changed_at"),
}


@pytest.mark.parametrize(("table", "place"), PLACES, ids=lambda value: getattr(value, "name", ""))
def test_whatever_is_put_into_any_column_is_a_finding_and_no_crash(tmp_path: Path, table: sa.Table, place: str) -> None:
    database = connect(f"sqlite:///{tmp_path}/a.sqlite3")
    upgrade(database)
    ledger = filled(database, 3)
    names = [column.name for column in table.columns if (table.name, column.name) not in FREE]
    for change in strange_changes(tmp_path / "a.sqlite3", table, place, names):
        assert not verify(ledger).ok, change
    assert verify(ledger).ok
    database.close()


def test_an_empty_record_is_whole(database: Database) -> None:
    report = verify(SqlLedger(database))
    assert (report.ok, report.rows, report.heads) == (True, 0, ())


@KEYS
def test_an_untouched_record_is_whole(database: Database, key: str) -> None:
    seen: list[int] = []
    ledger = filled(database, 5, key=key)
    report = verify(ledger, progress=seen.append)
    assert (report.ok, report.rows, report.keyed, seen[-1]) == (True, 5, bool(key), 5)
    assert [head.seq for head in report.heads] == [5]


@KEYS
@pytest.mark.parametrize("seq", [1, 3, 5])
@pytest.mark.parametrize(
    "values",
    [
        {"status": "error"},
        {"evidence_status": "NO_EVIDENCE"},
        {"actor": None},
        {"total_ms": 12.000001},
        {"found": False},
    ],
    ids=lambda values: next(iter(values)),
)
def test_a_changed_row_is_named(database: Database, key: str, seq: int, values: dict[str, Any]) -> None:
    ledger = filled(database, 5, key=key)
    tamper(database, set_row(seq, **values))
    assert check(ledger) == {("changed", seq, seq)}
    (finding,) = verify(ledger).findings
    assert finding.invocation_id == row_at(database, seq)["invocation_id"]
    assert f"row {seq}" in str(finding)


@KEYS
@pytest.mark.parametrize(("gone", "named"), [((1,), (1, 1)), ((3,), (3, 3)), ((5,), (5, 5)), ((2, 3, 4), (2, 4))])
def test_removed_rows_are_named_the_last_one_too(
    database: Database, key: str, gone: tuple[int, ...], named: tuple[int, int]
) -> None:
    ledger = filled(database, 5, key=key)
    tamper(database, remove_row(*gone))
    assert check(ledger) == {("removed", *named)}


def test_every_row_removed_is_said_so(database: Database) -> None:
    ledger = filled(database, 5)
    tamper(database, INVOCATION.delete())
    assert check(ledger) == {("removed", 1, 5)}


@pytest.mark.parametrize("seq", [1, 3, 5])
def test_a_row_changed_together_with_its_hash_is_found_by_what_others_hold_of_it(database: Database, seq: int) -> None:
    ledger = filled(database, 5)
    forged = row_at(database, seq) | {"status": "error"}
    tamper(database, set_row(seq, status="error", row_hash=Hasher().row(forged)))
    assert check(ledger) == {("changed", seq, seq)}


def test_a_row_changed_together_with_all_hashes_after_it_is_found_by_the_head(database: Database) -> None:
    ledger = filled(database, 4)
    prev, statements = row_at(database, 1)["row_hash"], []
    for seq in (2, 3, 4):
        forged = row_at(database, seq) | {"prev_hash": prev} | ({"status": "error"} if seq == 2 else {})
        prev = Hasher().row(forged)
        statements.append(set_row(seq, status=forged["status"], prev_hash=forged["prev_hash"], row_hash=prev))
    tamper(database, *statements)
    assert check(ledger) == {("changed", 4, 4)}  # who rewrites all of it is caught at the end, if he forgets the head
    tamper(database, set_head(row_hash=prev))
    assert check(ledger) == {("changed", 4, 4)}  # … or its seal


def test_with_a_key_a_whole_new_chain_does_not_fit(database: Database) -> None:
    ledger = filled(database, 3, key="a key")
    prev, statements = GENESIS, []
    for seq in (1, 2, 3):
        forged = row_at(database, seq) | {"prev_hash": prev, "status": "error"}
        prev = Hasher().row(forged)
        statements.append(set_row(seq, status="error", prev_hash=forged["prev_hash"], row_hash=prev))
    tamper(database, *statements, set_head(row_hash=prev, seal=Hasher().seal(ledger_writer(ledger), 3, prev)))
    assert {("changed", 1, 1), ("changed", 2, 2), ("changed", 3, 3)} <= check(ledger)


def test_with_a_key_nobody_can_say_that_there_was_none(database: Database) -> None:
    ledger = filled(database, 2, key="a key")
    tamper(database, set_head(key_id="", seal=Hasher().seal(ledger_writer(ledger), 2, row_at(database, 2)["row_hash"])))
    assert not verify(ledger).ok


@KEYS
def test_a_head_that_was_set_back_with_the_last_row_removed_is_found_by_its_seal(database: Database, key: str) -> None:
    ledger = filled(database, 5, key=key)
    tamper(database, remove_row(5), set_head(seq=4, row_hash=row_at(database, 4)["row_hash"]))
    assert check(ledger) == {("changed", 4, 4)}


def test_a_head_that_was_removed_makes_its_rows_rows_of_nobody(database: Database) -> None:
    ledger = filled(database, 2)
    tamper(database, WRITER.delete())
    assert check(ledger) == {("inserted", 1, 1), ("inserted", 2, 2)}


@KEYS
def test_two_rows_that_changed_places_are_both_named(database: Database, key: str) -> None:
    ledger = filled(database, 5, key=key)
    tamper(database, set_row(2, seq=99), set_row(4, seq=2), set_row(99, seq=4))
    assert check(ledger) == {("changed", 2, 2), ("changed", 4, 4)}


def copied(database: Database, source: int, **values: Any) -> Any:
    row = row_at(database, source) | values | {"invocation_id": "forged"}
    del row["id"]
    return INVOCATION.insert().values(row)


@KEYS
@pytest.mark.parametrize("seq", [-3, 0, 6, 9])
def test_a_row_inserted_before_the_beginning_or_behind_the_end_is_named(database: Database, key: str, seq: int) -> None:
    ledger = filled(database, 5, key=key)
    tamper(database, copied(database, 3, seq=seq))
    assert check(ledger) == {("inserted", seq, seq)}


def test_a_row_inserted_under_another_chain_is_named(database: Database) -> None:
    ledger = filled(database, 2)
    tamper(database, copied(database, 1, writer="another"))
    assert check(ledger) == {("inserted", 1, 1)}
    assert verify(ledger).findings[0].writer == "another"


@KEYS
def test_rows_moved_on_to_make_room_for_another_are_named(database: Database, key: str) -> None:
    ledger = filled(database, 4, key=key)
    forged = copied(database, 2, seq=3)
    tamper(database, set_row(4, seq=5), set_row(3, seq=4), forged)
    named = check(ledger)
    assert ("inserted", 5, 5) in named
    assert {("changed", 4, 4)} <= named
    assert not verify(ledger).ok


@KEYS
def test_records_go_on_behind_a_row_that_was_put_where_the_next_one_belongs(database: Database, key: str) -> None:
    ledger = filled(database, 3, key=key)
    prev = row_at(database, 3)["row_hash"]
    forged = row_at(database, 3) | {"seq": 4, "prev_hash": prev, "invocation_id": "forged"}
    tamper(database, copied(database, 3, seq=4, prev_hash=prev, row_hash=Hasher().row(forged)))
    ledger.deliver([entry()])
    assert [row["seq"] for row in rows(database)] == [1, 2, 3, 4, 5]
    assert check(ledger) == {("inserted", 4, 4)}


def test_a_link_that_was_changed_alone_blames_only_its_own_row(database: Database) -> None:
    ledger = filled(database, 5)
    tamper(database, set_row(3, prev_hash="0" * 64))
    assert check(ledger) == {("changed", 3, 3)}


def test_a_hash_that_was_changed_alone_blames_only_its_own_row(database: Database) -> None:
    ledger = filled(database, 5)
    tamper(database, set_row(3, row_hash="0" * 64))
    assert check(ledger) == {("changed", 3, 3)}


@pytest.mark.parametrize(
    ("change", "kind", "part"),
    [
        (QUERY_TRACE.update().values(status="error"), "changed", "trace"),
        (QUERY_TRACE.update().values(trace_json="{}"), "changed", "trace"),
        (QUERY_TRACE.delete(), "removed", "trace"),
        (CANDIDATE_TRACE.update().values(fused_rank=9), "changed", "trace"),
        (CANDIDATE_TRACE.delete(), "changed", "trace"),
        (EVENT.update().where(EVENT.c.sequence == 2).values(ms=0.5), "changed", "events"),
        (EVENT.delete().where(EVENT.c.sequence == 2), "changed", "events"),
        (EVENT.delete(), "removed", "events"),
    ],
)
def test_what_belongs_to_a_row_is_part_of_the_record(database: Database, change: Any, kind: str, part: str) -> None:
    ledger = filled(database, 2)
    tamper(database, change.where(next(iter(change.table.columns)).is_not(None)))
    named = {(f.kind.value, f.first_seq, f.what) for f in verify(ledger).findings if f.writer}
    assert named == {(kind, 1, f"its {part}"), (kind, 2, f"its {part}")}
    assert verify(ledger, deep=False).ok


def test_an_event_more_than_there_was_is_found(database: Database) -> None:
    ledger = filled(database, 1)
    row = dict(rows(database, EVENT)[0]) | {"sequence": 99}
    del row["id"]
    tamper(database, EVENT.insert().values(row))
    assert {(f.kind.value, f.what) for f in verify(ledger).findings} == {("changed", "its events")}


def test_rows_kept_with_another_key_are_not_called_sound(database: Database) -> None:
    filled(database, 2, key="first key")
    filled_later = filled(database, 1, key="second key")
    report = verify(filled_later)
    assert not report.ok
    assert [(f.kind.value, f.first_seq, f.last_seq) for f in report.findings] == [("unchecked", 1, 2)]
    assert "audit.hmac_key" in report.findings[0].what


def test_a_key_that_is_set_later_begins_a_chain_of_its_own(database: Database) -> None:
    filled(database, 2)
    ledger = filled(database, 3, key="a key")
    assert check(ledger) == set()
    report = verify(ledger)
    assert (report.keyed, report.rows, report.unkeyed) == (True, 5, 2)
    tamper(database, INVOCATION.update().where(INVOCATION.c.writer == "main", INVOCATION.c.seq == 1).values(actor="x"))
    assert [(f.writer, f.first_seq) for f in verify(ledger).findings] == [("main", 1)]


def test_a_gap_is_not_excused_by_a_pruning_that_no_record_stands_behind(database: Database) -> None:
    ledger = filled(database, 4)
    excuse = {
        "writer": "main",
        "first_seq": 2,
        "last_seq": 2,
        "prev_hash": row_at(database, 1)["row_hash"],
        "last_hash": row_at(database, 2)["row_hash"],
        "older_than": row_at(database, 2)["created_at"],
        "pruned_at": row_at(database, 2)["recorded_at"],
        "who": "nobody",
        "invocation_id": row_at(database, 3)["invocation_id"],
    }
    tamper(database, remove_row(2), PRUNE.insert().values(excuse))
    assert check(ledger) == {("removed", 2, 2)}


def test_of_very_many_findings_the_first_thousand_are_named_and_all_are_counted(database: Database) -> None:
    ledger = filled(database, 1)
    row = row_at(database, 1)
    del row["id"]
    forged = [row | {"seq": n, "invocation_id": f"forged-{n}", "trace_id": None} for n in range(2, 1203)]
    database.write(lambda c: c.execute(INVOCATION.insert(), forged))
    report = verify(ledger)
    assert (len(report.findings), report.count) == (1000, 1201)


def ledger_writer(ledger: SqlLedger) -> str:
    return ledger.heads()[0].writer


def test_a_rewritten_row_is_named_although_the_next_one_was_changed_too(database: Database) -> None:
    ledger = filled(database, 4)
    forged = row_at(database, 2) | {"status": "error"}
    tamper(database, set_row(2, status="error", row_hash=Hasher().row(forged)), set_row(3, actor="x"))
    assert check(ledger) == {("changed", 2, 2), ("changed", 3, 3)}


def test_two_rows_of_one_number_do_not_hide_each_other(tmp_path: Path) -> None:
    database = connect(f"sqlite:///{tmp_path}/x.sqlite3")
    upgrade(database)
    ledger = filled(database, 3)
    columns = ", ".join(column.name for column in INVOCATION.columns)
    with database.engine.begin() as connection:  # somebody does away with the keys first
        connection.execute(sa.text("ALTER TABLE tool_invocation RENAME TO kept"))
        connection.execute(sa.text(f"CREATE TABLE tool_invocation AS SELECT {columns} FROM kept"))
        connection.execute(sa.text("UPDATE tool_invocation SET seq = 2, id = 50 WHERE seq = 3"))
    assert check(ledger) == {("inserted", 2, 2), ("removed", 3, 3)}
    database.close()

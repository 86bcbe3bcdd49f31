import os
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

from core.audit.entry import Entry
from core.audit.outbox import BATCH, Drained, Outbox
from core.errors import BadInput, CheckFailed, StoreUnavailable
from tests.unit.audit.audit_samples import entry


def made(folder: Path, count: int = 0) -> tuple[Outbox, list[Entry]]:
    outbox, entries = Outbox(folder, "SQLite /x"), [entry() for _ in range(count)]
    for one in entries:
        outbox.put(one)
    return outbox, entries


def files(outbox: Outbox) -> list[Path]:
    return sorted(outbox.folder.glob("*.json"))


def ids(entries: Sequence[Entry]) -> list[str]:
    return [one.invocation_id for one in entries]


def test_what_waits_is_delivered_in_order_and_then_gone(tmp_path: Path) -> None:
    outbox, entries = made(tmp_path, BATCH + 3)
    assert outbox.waiting() == BATCH + 3
    batches: list[Sequence[Entry]] = []
    assert outbox.drain(batches.append) == Drained(delivered=BATCH + 3)
    assert [len(batch) for batch in batches] == [BATCH, 3]
    assert [one for batch in batches for one in batch] == entries
    assert (outbox.waiting(), outbox.aside()) == (0, [])


def test_an_empty_outbox_asks_for_nothing(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "none", "SQLite /x")
    assert (outbox.waiting(), outbox.aside()) == (0, [])
    assert outbox.drain(lambda _: pytest.fail("delivered nothing")) == Drained()
    assert not (tmp_path / "none").exists()


def test_each_database_has_an_outbox_of_its_own_that_names_it(tmp_path: Path) -> None:
    one, two = Outbox(tmp_path, "SQLite /x"), Outbox(tmp_path, "mysql db:3306/y")
    one.put(entry())
    assert (one.waiting(), two.waiting()) == (1, 0)
    assert "SQLite /x" in (one.folder / "database.txt").read_text()


def test_only_the_owner_can_read_what_waits(tmp_path: Path) -> None:
    outbox, _ = made(tmp_path, 1)
    assert stat.S_IMODE(files(outbox)[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(outbox.folder.stat().st_mode) == 0o700


def test_what_was_not_delivered_waits_on(tmp_path: Path) -> None:
    outbox, entries = made(tmp_path, 2)

    def away(_: Sequence[Entry]) -> None:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        outbox.drain(away)
    assert outbox.waiting() == 2
    taken: list[Entry] = []
    outbox.drain(taken.extend)
    assert taken == entries


def test_a_crash_between_delivery_and_removal_delivers_the_same_again(tmp_path: Path) -> None:
    outbox, entries = made(tmp_path, 1)
    taken: list[Entry] = []

    def dies(batch: Sequence[Entry]) -> None:
        taken.extend(batch)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outbox.drain(dies)
    outbox.drain(taken.extend)
    assert taken == entries * 2  # the database tells them apart by their id


@pytest.mark.parametrize("harm", [b"", b"{}", b"half", None])
def test_a_damaged_file_is_set_aside_by_name_and_holds_up_nobody(tmp_path: Path, harm: bytes | None) -> None:
    outbox, entries = made(tmp_path, 3)
    second = files(outbox)[1]
    data = second.read_bytes()
    second.write_bytes(data.replace(b'"status":"ok"', b'"status":"no"') if harm is None else harm)
    taken: list[Entry] = []
    assert outbox.drain(taken.extend) == Drained(delivered=2, aside=1)
    assert ids(taken) == ids([entries[0], entries[2]])
    assert [path.name for path in outbox.aside()] == [second.name]
    assert outbox.waiting() == 0


@pytest.mark.parametrize("error", [BadInput("no"), CheckFailed("no"), TypeError("no")])
def test_a_record_that_is_refused_is_set_aside_and_the_others_go_on(tmp_path: Path, error: Exception) -> None:
    outbox, entries = made(tmp_path, 3)
    taken: list[Entry] = []

    def picky(batch: Sequence[Entry]) -> None:
        if entries[1] in batch:
            raise error
        taken.extend(batch)

    assert outbox.drain(picky) == Drained(delivered=2, aside=1)
    assert ids(taken) == ids([entries[0], entries[2]])
    (aside,) = outbox.aside()
    assert aside.parent.name == "refused"
    aside.rename(outbox.folder / aside.name)
    outbox.drain(taken.extend)
    assert ids(taken) == ids([entries[0], entries[2], entries[1]])


def test_a_database_that_goes_away_in_the_middle_of_a_trial_one_by_one_loses_nothing(tmp_path: Path) -> None:
    outbox, entries = made(tmp_path, 2)
    calls = 0

    def flaky(_: Sequence[Entry]) -> None:
        nonlocal calls
        calls += 1
        raise CheckFailed("no") if calls == 1 else StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        outbox.drain(flaky)
    assert (outbox.waiting(), outbox.aside()) == (len(entries), [])


def test_one_process_at_a_time_delivers(tmp_path: Path) -> None:
    outbox, _ = made(tmp_path, 1)
    with FileLock(str(outbox.folder / "lock")):
        assert Outbox(tmp_path, "SQLite /x").drain(lambda _: pytest.fail("not ours")) is None
    assert outbox.waiting() == 1


def test_files_of_writers_that_died_halfway_are_not_records(tmp_path: Path) -> None:
    outbox, _ = made(tmp_path, 1)
    fresh, old = outbox.folder / "1.part", outbox.folder / "2.part"
    fresh.write_bytes(b"half")
    old.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert outbox.waiting() == 1
    outbox.drain(lambda _: None)
    assert (fresh.exists(), old.exists()) == (True, False)


def test_a_folder_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file where the folder should be")
    with pytest.raises(OSError):
        Outbox(tmp_path / "root", "SQLite /x").put(entry())
    with pytest.raises(OSError):
        Outbox(tmp_path / "root", "SQLite /x").check()


def test_a_check_leaves_nothing_that_waits(tmp_path: Path) -> None:
    box = Outbox(tmp_path, "SQLite /x")
    box.check()
    assert box.waiting() == 0
    assert [path.suffix for path in box.folder.iterdir() if path.suffix == ".part"] == []


def test_threads_put_records_under_names_of_their_own(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "SQLite /x")
    threads = [threading.Thread(target=lambda: [outbox.put(entry()) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outbox.waiting() == 40


def test_records_of_a_process_that_was_killed_are_delivered_by_the_next(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from core.audit.outbox import Outbox; "
        "from tests.unit.audit.audit_samples import entry; box = Outbox(Path(sys.argv[1]), 'SQLite /x'); "
        "[box.put(entry()) for _ in range(3)]; os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[3], check=False)
    assert ended.returncode == -9
    taken: list[Entry] = []
    assert Outbox(tmp_path, "SQLite /x").drain(taken.extend) == Drained(delivered=3)
    assert len(taken) == 3

"""The detached server of a Milvus Lite file: one per file, found, started, replaced, ended."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.adapters import milvus_server
from core.adapters.milvus_server import record as records
from core.errors import Busy, InvalidSettings, StoreUnavailable

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.milvus


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "made" / "x.db"
    yield file
    milvus_server.stop(file)
    assert not milvus_server.status(file).running


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)  # another process is being waited for
    return holds()


def elsewhere(code: str, *arguments: str) -> subprocess.Popen[str]:
    """``code`` in a Python process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


ENSURE = "import sys; from core.adapters import milvus_server as s; print(s.ensure(sys.argv[1], 60))"


def test_the_server_outlives_its_starter_and_is_found_again(path: Path) -> None:
    starter = elsewhere(ENSURE, str(path))
    uri = starter.communicate(timeout=60)[0].strip()
    assert uri.startswith("http://127.0.0.1:")
    assert milvus_server.ensure(path, 60) == uri

    now = milvus_server.status(path)
    assert (now.running, now.uri, now.path) == (True, uri, path)
    assert now.pid not in (None, starter.pid, os.getpid())
    assert now.since == pytest.approx(time.time(), abs=60)
    assert set(json.loads((path.parent / "x.db.server.json").read_text())) == {"port", "pid", "started", "since"}


def test_two_processes_that_start_at_once_get_one_server(path: Path) -> None:
    starters = [elsewhere(ENSURE, str(path)) for _ in range(2)]
    assert len({starter.communicate(timeout=60)[0].strip() for starter in starters}) == 1
    assert all(starter.returncode == 0 for starter in starters)


def test_threads_that_start_at_once_get_one_server(path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(lambda _: milvus_server.ensure(path, 60), range(6)))) == 1


def test_stopping_ends_it_cleanly_and_says_whether_there_was_one(path: Path) -> None:
    milvus_server.ensure(path, 60)
    pid = milvus_server.status(path).pid
    assert milvus_server.stop(path) is True
    assert milvus_server.stop(path) is False
    assert not (path.parent / "x.db.server.json").exists()
    assert not records.held_by_another(path)
    assert pid is not None
    assert records.start_time(pid) == 0


def test_case_128_a_killed_server_is_noticed_and_replaced(path: Path) -> None:
    first = milvus_server.ensure(path, 60)
    pid = milvus_server.status(path).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not milvus_server.status(path).running)
    assert milvus_server.ensure(path, 60) != first
    assert milvus_server.status(path).pid != pid


def test_a_record_of_another_process_is_ignored(path: Path) -> None:
    path.mkdir(parents=True)
    record = path.parent / "x.db.server.json"
    record.write_text(json.dumps({"port": 1, "pid": os.getpid(), "started": 1, "since": 0}))
    assert not milvus_server.status(path).running
    assert milvus_server.stop(path) is False
    record.write_text("{ not json")
    assert milvus_server.ensure(path, 60).startswith("http://127.0.0.1:")


def test_it_ends_when_nobody_calls(path: Path) -> None:
    milvus_server.ensure(path, 1)
    pid = milvus_server.status(path).pid
    assert pid is not None
    assert eventually(lambda: records.start_time(pid) == 0)
    assert not (path.parent / "x.db.server.json").exists()


def test_it_ends_when_its_directory_is_gone(path: Path) -> None:
    milvus_server.ensure(path, 60)
    pid = milvus_server.status(path).pid
    assert pid is not None
    shutil.rmtree(path.parent)
    assert eventually(lambda: records.start_time(pid) == 0)
    assert not path.parent.exists()


def test_a_new_server_waits_for_one_that_is_closing(path: Path) -> None:
    first = milvus_server.ensure(path, 60)
    pid = milvus_server.status(path).pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: milvus_server.ensure(path, 60) != first)
    assert milvus_server.status(path).running


def test_serving_in_the_foreground_ends_on_a_signal_and_refuses_a_second(path: Path) -> None:
    serve = "import sys; from core.adapters import milvus_server as s; sys.exit(s.serve_foreground(sys.argv[1]))"
    server = elsewhere(serve, str(path))
    assert eventually(lambda: milvus_server.status(path).running)
    assert milvus_server.status(path).pid == server.pid
    with pytest.raises(Busy, match="served already"):
        milvus_server.serve_foreground(path)
    server.send_signal(signal.SIGINT)
    _out, err = server.communicate(timeout=30)
    assert (server.returncode, err) == (0, "")


@pytest.mark.parametrize("name", ["x.txt", "x", "x.db.bak"])
def test_a_path_that_does_not_end_in_db_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSettings, match=r"must end in \.db"):
        milvus_server.ensure(tmp_path / name)


def test_a_file_in_the_place_of_the_directory_is_explained(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    old.write_bytes(b"SQLite format 3\x00")
    with pytest.raises(StoreUnavailable, match=r"is a file, perhaps of an older Milvus Lite.*move it away"):
        milvus_server.ensure(old)
    assert old.read_bytes() == b"SQLite format 3\x00"


def test_a_parent_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        milvus_server.ensure(tmp_path / "file" / "x.db")


def test_missing_permission_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records.os, "access", lambda *_: False)
    with pytest.raises(StoreUnavailable, match="not writable"):
        milvus_server.ensure(tmp_path / "x.db")


def test_a_file_that_another_program_has_open_is_explained(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.adapters.milvus_server.control.FOREIGN_SECONDS", 0.2)
    path.mkdir(parents=True)
    with (path / "LOCK").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="in use by another process that is not its server"):
            milvus_server.ensure(path)
    assert milvus_server.ensure(path, 60)


def test_a_server_that_cannot_start_says_why(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "collections").write_text("a file where Milvus Lite wants a directory")
    with pytest.raises(StoreUnavailable, match=r"did not start \(.*exists.*see .*server\.log"):
        milvus_server.ensure(path)


def test_nothing_to_stop_where_nothing_ever_was(tmp_path: Path) -> None:
    assert milvus_server.stop(tmp_path / "nowhere" / "x.db") is False
    assert not (tmp_path / "nowhere").exists()

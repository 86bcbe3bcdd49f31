"""The command line before it touches a store: what it takes, where it writes, and what it says when something fails."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from core import cli
from core.cli.output import output
from core.errors import BadInput


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error


def test_an_argument_that_is_no_utf_8_is_bad_input_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "a\udcffb"]) == 2
    assert "no valid UTF-8" in one_line(capsys)
    assert cli.main(["lookup", "redis", "--kb-scope", "ok", "--kb-scope", "a\udcff"]) == 2
    assert one_line(capsys).startswith("error: kb_scope:")


def test_what_nobody_foresaw_is_one_line_without_a_stack_trace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> int:
        raise LookupError("mysql://kb:CANARY@db/x")

    monkeypatch.setattr("core.cli.lookup._batch", broken)
    assert cli.main(["lookup", "--batch", "x"]) == 1
    error = one_line(capsys)
    assert "unexpected LookupError" in error
    assert "CANARY" not in error


def test_a_disk_that_is_full_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.cli.lookup._batch", full)
    assert cli.main(["lookup", "--batch", "x"]) == 1
    assert "No space left on device" in one_line(capsys)


def test_a_batch_of_endless_brackets_is_named_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text('{"query_id": "a", "query": "redis"}\n' + "[" * 100_000 + "\n")
    assert cli.main(["lookup", "--batch", str(file)]) == 2
    assert "line 2" in one_line(capsys)


def test_out_without_a_batch_is_refused_and_not_forgotten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lookup", "redis", "--out", str(tmp_path / "o")]) == 2
    assert "--out goes with --batch" in one_line(capsys)


def test_results_never_overwrite_the_questions_or_a_folder(tmp_path: Path) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps({"query_id": 1, "query": "redis"}))
    link = tmp_path / "link"
    link.symlink_to(questions)
    for path, words in ((questions, "would overwrite"), (link, "would overwrite"), (tmp_path, "a folder")):
        with pytest.raises(BadInput, match=words), output(path, source=questions):
            pass
    assert "redis" in questions.read_text()


def test_a_link_is_written_through_and_a_file_that_fails_stays_as_it_was(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with pytest.raises(TypeError), output(link) as out:
        out.writelines(["half", None])  # type: ignore[list-item]
    assert target.read_text() == "old"
    with output(link) as out:
        out.write("new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with output(pipe) as out:
            out.write("line\n")
        assert os.read(reader, 100) == b"line\n"
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    finally:
        os.close(reader)

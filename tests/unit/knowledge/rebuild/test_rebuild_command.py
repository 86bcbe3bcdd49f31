"""The commands that change the index: what they refuse, print and end with."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TextColumn

from core.cli import index, main
from core.knowledge.rebuild.values import Kind, Plan, Progress, RebuildOutcome
from core.knowledge.source import Rejected
from tests.unit.knowledge.rebuild.rebuild_world import World


@pytest.fixture
def house(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Commands work on ``world``."""

    @contextmanager
    def app() -> Iterator[Any]:
        yield SimpleNamespace(rebuild=world.service(), generations=world.generations, settings=world.settings)

    monkeypatch.setattr(index, "app", app)
    world.write("a.md", "word alpha")
    return world


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("command", "word"), [("rebuild", "REBUILD"), ("rollback", "ROLLBACK"), ("switch", "SWITCH")])
@pytest.mark.parametrize("typed", [[], ["--confirm", "yes"], ["--confirm", "Rebuild"]])
def test_without_the_word_no_store_is_even_opened(
    command: str, word: str, typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(index, "app", lambda: pytest.fail("opened"))
    assert main([command, *typed]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1


def test_every_command_does_its_work_and_tells_it_as_json(house: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebuild", "--dry-run", "--json"]) == 0
    assert told(capsys)["added"] == ["a"]
    assert main(["rebuild", "--confirm", "REBUILD", "--why", "first", "--json"]) == 0
    assert told(capsys)["generation"] == 1
    house.write("a.md", "word beta")
    assert main(["rebuild", "--confirm", "REBUILD", "--hold", "--json"]) == 0
    assert told(capsys)["state"] == "VERIFIED"
    assert main(["switch", "--confirm", "SWITCH", "--generation", "2", "--json"]) == 0
    assert told(capsys)["state"] == "ACTIVE"
    assert main(["rollback", "--confirm", "ROLLBACK", "--json"]) == 0
    assert told(capsys)["generation"] == 1
    assert main(["remove", "a", "--json"]) == 0
    assert told(capsys)["removed"] == ["a"]
    assert house.runs.history("biz").rows[-1].why == "first"


def test_an_ingest_with_some_rejected_files_ends_with_1_and_lists_them(
    house: World, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["rebuild", "--confirm", "REBUILD", "--json"])
    inbox = house.folder / "inbox"
    inbox.mkdir()
    (inbox / "good.md").write_text("zebra")
    (inbox / "bad.md").write_text("---\ntitle: [\n---\n")
    capsys.readouterr()
    assert main(["ingest", str(inbox)]) == 1
    out = capsys.readouterr().out
    assert "1 rejected:" in out
    assert "bad.md:" in out
    assert main(["ingest", str(inbox / "bad.md")]) == 2
    assert main(["ingest", str(inbox / "missing.md")]) == 2
    assert main(["ingest"]) == 2


def test_a_refused_rebuild_ends_with_1_and_a_missing_folder_with_2(
    house: World, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["rebuild", "--confirm", "REBUILD"])
    (house.source / "a.md").unlink()
    assert main(["rebuild", "--confirm", "REBUILD"]) == 1
    assert main(["rebuild", "--confirm", "REBUILD", "--source", str(house.folder / "nowhere")]) == 2
    assert main(["rollback", "--confirm", "ROLLBACK"]) == 2
    assert "no usable document" in capsys.readouterr().err
    assert main(["rebuild", "--confirm", "REBUILD", "--allow-shrink"]) == 0


def test_a_first_start_builds_once(house: World) -> None:
    built: Any = SimpleNamespace(rebuild=house.service(), generations=house.generations, settings=house.settings)
    outcome = index.build_sample(built)
    assert outcome is not None
    assert outcome.documents == 1
    assert index.build_sample(built) is None


def test_a_plan_is_told_with_time_demands_and_a_bounded_list() -> None:
    plan = Plan(
        added=tuple(f"d{n}" for n in range(index.LISTED + 3)),
        rejected=(Rejected("bad.md", "empty"), Rejected("worse.md", "no YAML", 3)),
        skipped=(*(Rejected(f"{n}.png", "no .md") for n in range(7)), Rejected("README.md", "every README.md")),
        documents=23,
        chunks=900,
        to_embed=600,
        from_cache=300,
        seconds=300.0,
        rate=2.0,
        rate_from="measured",
        faster="use",
        faster_seconds=30.0,
        demands=("chunk settings: changed",),
        refused="too few",
    )
    lines = index.plan_text(plan).splitlines()
    assert "900 chunks: 600 to embed, 300 from the cache" in lines
    assert "time: about 5 min at 2.0 passages a second (measured)" in lines
    assert "faster: embedding.provider = 'use' needs about 30 s" in lines
    assert "! chunk settings: changed" in lines
    assert "! would be refused: too few" in lines
    assert "  + and 3 more" in lines
    assert "  worse.md:3: no YAML" in lines
    assert "8 files skipped by rule:" in lines
    assert "  no .md: 0.png, 1.png, 2.png, 3.png, 4.png and 2 more (--json lists them)" in lines
    assert "  every README.md: README.md" in lines


def test_an_empty_plan_says_that_no_rate_is_known() -> None:
    assert "time: unknown" in index.plan_text(Plan(rate_from="unknown: nothing has been embedded here yet"))


def test_a_held_generation_is_not_called_active() -> None:
    held = RebuildOutcome(
        "r", Kind.REBUILD, "VERIFIED", 3, chunks=1, seconds={"total": 7500.0}, warnings=("a.md: odd",)
    )
    lines = index.outcome_text(held).splitlines()
    assert lines[0] == "generation 3 is held, not yet active (2 h 05 min)"
    assert "! a.md: odd" in lines


def test_a_bar_for_each_step_ends_full_and_shows_markup_as_text() -> None:
    out = io.StringIO()
    bar = Bar(TextColumn("{task.description}|{task.fields[count]}"), console=Console(file=out, width=100))
    bars = index._Bars(bar)
    bars(Progress("r", "scan", "reading /kb/[red]x"))
    bars(Progress("r", "fill", "embedding", done=5, total=10, rate=2.5))
    bars(Progress("r", "fill", "embedding", done=10, total=10, rate=2.5))
    bars.finish()
    assert [(task.completed, task.total) for task in bar.tasks] == [(1, 1), (10, 10)]
    with bar:
        bar.refresh()
    assert "reading /kb/[red]x|" in out.getvalue()
    assert "embedding|10/10 2.5/s" in out.getvalue()


def test_without_a_terminal_each_step_is_one_line_and_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with index.progress_line() as tell:
        assert tell is not None
        tell(Progress("r", "scan", "reading"))
        tell(Progress("r", "scan", "reading", done=1, total=2))
    with index.progress_line(quiet=True) as silent:
        assert silent is None
    assert capsys.readouterr().err == "scan: reading\n"

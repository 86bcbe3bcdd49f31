"""A text is analysed once for a version of the analysis, whatever is rebuilt."""

from __future__ import annotations

import pytest

from core import analysis
from core.knowledge.rebuild import fill
from tests.unit.knowledge.rebuild.rebuild_world import World


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []

    def watched(text: str) -> str:
        texts.append(text)
        return analysis.search_text(text)

    monkeypatch.setattr(fill, "search_text", watched)
    return texts


def test_what_did_not_change_is_not_analysed_again(world: World, analysed: list[str]) -> None:
    world.write("a.md", "word 连接池耗尽")
    world.write("b.md", "word other")
    world.service().rebuild("REBUILD", who="ann")
    assert len(analysed) == 2
    world.write("b.md", "word another 磁盘")
    world.service().rebuild("REBUILD", who="ann")
    assert len(analysed) == 3
    assert world.found("连接池") == {"a"}
    assert world.found("磁盘") == {"b"}


def test_texts_of_another_version_serve_nobody_and_go_with_the_next_rebuild(world: World, analysed: list[str]) -> None:
    world.write("a.md", "word")
    world.search_texts.put("0", {"k" * 64: "of another version"})
    assert world.search_texts.get(analysis.ANALYSIS_VERSION, ["k" * 64]) == {}
    world.service().rebuild("REBUILD", who="ann")
    assert len(analysed) == 1
    assert world.search_texts.get("0", ["k" * 64]) == {}
    world.service().rebuild("REBUILD", who="ann")
    assert len(analysed) == 1

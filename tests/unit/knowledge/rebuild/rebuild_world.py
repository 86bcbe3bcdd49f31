"""A whole rebuild in a folder: markdown files, SQLite, the store in memory, a model that hashes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.adapters.memory_index import MemoryIndex
from core.adapters.sql.embeddings import SqlEmbeddingCache
from core.adapters.sql.engine import Database, connect
from core.adapters.sql.generations import SqlGenerations
from core.adapters.sql.runs import SqlRuns
from core.adapters.sql.schema import upgrade
from core.adapters.sql.search_texts import SqlSearchTexts
from core.analysis import ANALYSIS_VERSION, search_text
from core.knowledge.rebuild import RebuildService
from core.knowledge.snapshots import Snapshots
from core.model import Document, L0Match, Scopes, SearchFilter
from core.settings import load
from tests.fakes import HashEmbedder

ALL = SearchFilter(Scopes(frozenset(), everything=True))


@lru_cache(maxsize=1)
def _empty_database() -> bytes:
    """An SQLite file with the schema in place: migrating one for every test would take most of the time."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "empty.sqlite3"
        database = connect(f"sqlite:///{file}")
        upgrade(database)
        database.close()
        return file.read_bytes()


class NoL0:
    def __init__(self, documents: list[Document]) -> None:
        self.documents = documents

    def match(self, text: str, scopes: Scopes) -> L0Match:
        del text, scopes
        return L0Match()


class ManualClock:
    """``now`` moves by hand, so that grace periods need no waiting; ``monotonic`` is real."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return time.monotonic()


class Killed(BaseException):
    """Stands for the death of the process: nothing of ours may clean up after it."""


@dataclass
class World:
    """One installation below ``folder``, which may be there already. ``service()`` is another process on the same
    stores. ``database`` None: an SQLite file below ``folder``."""

    folder: Path
    embedder: Any = field(default_factory=HashEmbedder)
    index: Any = field(default_factory=MemoryIndex)
    clock: ManualClock = field(default_factory=ManualClock)
    settings_over: dict[str, Any] = field(default_factory=dict)
    database: Database | None = None

    def __post_init__(self) -> None:
        self.source = self.folder / "kb"
        self.uploads = self.folder / "uploads"
        self.source.mkdir(exist_ok=True)
        knowledge = {"source": str(self.source), "uploads": str(self.uploads), "drop_after_seconds": 0.0}
        self.settings = load(None, {}, knowledge={**knowledge, **self.settings_over})
        if self.database is None:
            file = self.folder / "console.sqlite3"
            if not file.exists():
                file.write_bytes(_empty_database())
            self.database = connect(f"sqlite:///{file}")
        self.generations = SqlGenerations(self.database)
        self.runs = SqlRuns(self.database)
        self.cache = SqlEmbeddingCache(self.database)
        self.search_texts = SqlSearchTexts(self.database)
        self.snapshots = Snapshots(
            self.generations, self.index, "biz", NoL0, lambda: (self.embedder.profile, ANALYSIS_VERSION)
        )

    def service(self, **changes: Any) -> RebuildService:
        parts: dict[str, Any] = {
            "alias": "biz",
            "settings": self.settings,
            "generations": self.generations,
            "runs": self.runs,
            "cache": self.cache,
            "search_texts": self.search_texts,
            "admin": self.index,
            "index": self.index,
            "embedder": self.embedder,
            "snapshots": self.snapshots,
            "clock": self.clock,
        }
        return RebuildService(**{**parts, **changes})

    def write(self, name: str, text: str) -> Path:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def found(self, word: str) -> set[str]:
        """Documents that the active generation answers with for ``word``, by BM25, as a lookup would ask."""
        generation = self.snapshots.current().generation
        hits = self.index.search_bm25(generation, search_text(word), ALL, 50, timeout=1).hits
        return {hit.chunk.doc_id for hit in hits}

    def collections(self) -> list[str]:
        return [info.name for info in self.index.collections("", timeout=1)]

    def rows(self) -> set[int]:
        """Numbers of the generations that have documents or chunks in SQL."""
        return {
            g.number
            for g in self.generations.all("biz")
            if self.generations.documents("biz", g.number) or self.generations.chunks("biz", g.number)
        }

    def close(self) -> None:
        if self.database is not None:
            self.database.close()


def at_step(name: str, act: Callable[[], object]) -> Callable[[str], None]:
    """A step hook that acts when step ``name`` comes, the first time."""
    done: list[str] = []

    def hook(step: str) -> None:
        if step == name and not done:
            done.append(step)
            act()

    return hook


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act

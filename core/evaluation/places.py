"""The files of one evaluation folder, and a cheap mark of their state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from core.evaluation.fixtures import SUFFIX
from core.model import Mode


@dataclass(frozen=True, slots=True)
class Places:
    """``folder`` need not exist yet."""

    folder: Path

    @property
    def cases(self) -> Path:
        return self.folder / "cases" / "golden-cases.json"

    @property
    def drafts(self) -> Path:
        """Promoted lookups that nobody has made a case of yet: they gate nothing and stand in no comparison."""
        return self.folder / "cases" / "drafts.json"

    @property
    def fixtures(self) -> Path:
        return self.folder / "fixtures"

    @property
    def seed(self) -> Path:
        return self.folder / "seed-docs"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    def baseline(self, mode: Mode) -> Path:
        """The folder of the baseline of ``mode``."""
        return self.reports if mode is Mode.HYBRID else self.reports / mode.value

    def has_fixtures(self, mode: Mode) -> bool:
        """Whether anything was frozen in ``mode`` (hybrid: also the papers' flat form)."""
        folders = [self.fixtures / mode.value] + ([self.fixtures] if mode is Mode.HYBRID else [])
        return any(next(folder.glob(f"*{SUFFIX}"), None) is not None for folder in folders if folder.is_dir())

    def mark(self, *modes: Mode) -> str:
        """Another text after any file was written, added or removed that a run or a comparison of ``modes`` reads:
        names, sizes and times only, so that it costs a few milliseconds."""
        told = hashlib.sha256()
        for path in sorted(self._read_by(modes)):
            try:
                seen = path.stat()
            except OSError:
                continue
            told.update(f"{path}\0{seen.st_mtime_ns}\0{seen.st_size}\n".encode("utf-8", "surrogatepass"))
        return told.hexdigest()

    def _read_by(self, modes: Iterable[Mode]) -> Iterable[Path]:
        yield from (self.cases, self.drafts)
        yield from self.fixtures.glob(f"*{SUFFIX}")
        for mode in modes:
            yield from (self.fixtures / mode.value).glob(f"*{SUFFIX}")
            yield self.baseline(mode) / "baseline.json"
        yield from self.seed.rglob("*.md")

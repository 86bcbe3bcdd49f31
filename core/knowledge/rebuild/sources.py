"""Which files a generation is made of: the source folder, the uploads, minus what was removed by hand.

A removed document of the source folder leaves a tombstone in the uploads folder, ``.removed.json``:
``{"<doc_id>": {"by": who, "at": ISO time, "why": text}}``. The source folder itself is never written to. A tombstone
outlives every rebuild and every later edit of the file; ingesting the document again takes it away.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from core.errors import BadInput, StoreUnavailable
from core.knowledge.source import Rejected, SourceListing, list_files

REMOVED_FILE: Final = ".removed.json"
STAGING: Final = ".staging"


@dataclass(frozen=True, slots=True)
class Sources:
    """``root`` is read; ``uploads`` (need not exist) is a second source that wins over the same document id."""

    root: Path
    uploads: Path

    def listing(self) -> SourceListing:
        """Every file that belongs into the index. A removed document is among ``skipped`` with who removed it.

        Raises BadInput when the source is no readable folder, the tombstones cannot be read, or one folder lies inside
        the other: then each upload would be two documents.
        """
        root, uploads = self.root.resolve(), self.uploads.resolve()
        if root != uploads and (uploads.is_relative_to(root) or root.is_relative_to(uploads)):
            raise BadInput(
                f"knowledge.uploads ({uploads}) and the source ({root}) lie inside each other; separate them"
            )
        found = list_files(self.root, self.uploads)
        removed = self.removed()
        gone = [file for file in found.files if file.doc_id in removed]
        skipped = [s for s in found.skipped if Path(s.source).parts[0] not in {REMOVED_FILE, STAGING}]
        skipped += [Rejected(file.source, _removed_by(removed[file.doc_id])) for file in gone]
        return replace(
            found,
            files=tuple(file for file in found.files if file.doc_id not in removed),
            skipped=tuple(sorted(skipped, key=lambda r: r.source)),
        )

    def removed(self) -> dict[str, dict[str, str]]:
        """Tombstones by document id. Raises BadInput for a file that cannot be read: nothing may come back silently."""
        file = self.uploads / REMOVED_FILE
        if not file.exists():
            return {}
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
            return {str(doc_id): {str(k): str(v) for k, v in facts.items()} for doc_id, facts in data.items()}
        except (OSError, ValueError, AttributeError) as exc:
            raise BadInput(
                f"{file}: cannot be read ({type(exc).__name__}); mend it, or delete it to bring all back"
            ) from exc


def write_removed(uploads: Path, tombstones: Mapping[str, Mapping[str, str]]) -> None:
    """Replaces the tombstones in one step."""
    uploads.mkdir(parents=True, exist_ok=True)
    part = uploads / f"{REMOVED_FILE}.{os.getpid()}"
    part.write_text(json.dumps(tombstones, ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(part, uploads / REMOVED_FILE)


@contextmanager
def writing(uploads: Path) -> Iterator[None]:
    """Errors of the file system inside the block leave it as StoreUnavailable that names the folder."""
    try:
        yield
    except OSError as exc:
        reason = f"{exc.strerror or type(exc).__name__}: {exc.filename}"
        raise StoreUnavailable(f"uploads folder {uploads} cannot be written ({reason}); mend it and try again") from exc


def clear_staging(uploads: Path, run_id: str | None = None) -> None:
    """Removes what ``run_id`` staged (None: what any run did), and the staging folder when it is empty then."""
    staging = uploads / STAGING
    shutil.rmtree(staging / run_id if run_id else staging, ignore_errors=True)
    with suppress(OSError):
        staging.rmdir()


def _removed_by(facts: Mapping[str, str]) -> str:
    return f"removed on {facts.get('at', '?')} by {facts.get('by', '?')}; ingest it to bring it back"

"""Daily writes: which files an ingest means, where they wait, and what is done to the uploads folder at the switch.

Files from elsewhere are copied into ``uploads/.staging/<run>`` and moved into place when the new generation takes over,
so that a run that fails or is cancelled leaves nothing in the uploads. A file inside the source folder is read where it
stands.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from core.errors import BadInput
from core.knowledge.rebuild.sources import STAGING, Sources, writing
from core.knowledge.source import MAX_FILE_BYTES, MAX_KEY_BYTES, Rejected, SourceFile, doc_id_of, list_files


@dataclass(frozen=True, slots=True)
class Intake:
    """``files`` to read, ``rejected`` by name alone; ``change`` is what the switch does to the uploads folder (see
    ``Switcher``); ``notes`` are for the operator."""

    files: tuple[SourceFile, ...]
    change: dict[str, Any] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()


def checked_name(name: str) -> str:
    """A file name from outside as a path below uploads: NFC, ``/``, ending in ``.md``. Raises BadInput for one that
    leads elsewhere, is hidden, is skipped by every rebuild, or is too long."""
    clean = unicodedata.normalize("NFC", name.replace("\\", "/")).strip()
    path = PurePosixPath(clean)
    parts = path.parts
    shown = repr(name[:120])
    if not parts or path.is_absolute() or any(part in {".", ".."} or part.startswith(".") for part in parts):
        raise BadInput(f"{shown}: give a plain file name, without .. and not hidden")
    if ":" in parts[0] or any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in clean):
        raise BadInput(f"{shown}: give a name without drive letters and control characters")
    if not clean.lower().endswith(".md") or len(path.name) <= len(".md"):
        raise BadInput(f"{shown}: only Markdown is read; save it as a .md file")
    if path.name.lower() == "readme.md":
        raise BadInput(f"{shown}: every README.md is skipped; give it another name")
    if len(clean.encode()) > MAX_KEY_BYTES or any(len(part.encode()) > 255 for part in parts):
        raise BadInput(f"{shown}: the name is too long (at most {MAX_KEY_BYTES} bytes); shorten it")
    return str(path)


def from_paths(paths: Sequence[Path], sources: Sources, run_id: str) -> Intake:
    """The Markdown files that ``paths`` name: files, or folders with all below them. Raises BadInput for a path that
    does not exist, is no Markdown, or gives an id twice; then nothing is left behind."""
    if not paths:
        raise BadInput("nothing to ingest: name a file or a folder")
    given: dict[str, tuple[str, Path]] = {}  # doc_id -> (name, where it is now)
    inside: list[SourceFile] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    for path in paths:
        found, refused, ours = _named(path, sources)
        rejected += refused
        if ours:
            inside += found
            continue
        for file in found:
            if (twin := given.get(file.doc_id)) is not None:
                raise BadInput(f"{file.path} and {twin[1]} would both be {file.doc_id!r}; ingest one of them")
            given[file.doc_id] = (file.source, file.path)
    twice = sorted({file.doc_id for file in inside} & set(given))
    if twice:
        raise BadInput(f"{twice[0]!r} is given from the source folder and from elsewhere; ingest one of them")
    contents = {name: _content(path) for name, path in given.values()}
    intake = from_bytes(contents, sources, run_id) if contents else Intake(())
    change = dict(intake.change)
    overruled = {f.doc_id: f for f in _uploaded(sources)}
    for file in inside:
        if not file.uploaded and file.doc_id in overruled:
            change["deleted"] = [*change.get("deleted", ()), overruled[file.doc_id].source]
            notes.append(f"the upload of {file.doc_id!r} gives way to the file in the source folder")
    change["restored"] = sorted({*change.get("restored", ()), *(file.doc_id for file in inside)})
    return Intake((*intake.files, *inside), change, tuple(rejected), tuple(notes))


def from_bytes(contents: dict[str, bytes], sources: Sources, run_id: str) -> Intake:
    """Files by name (see ``checked_name``), staged below the uploads folder. Raises BadInput for a bad name or size."""
    named = {checked_name(name): data for name, data in contents.items()}
    for name, data in named.items():
        if len(data) > MAX_FILE_BYTES:
            raise BadInput(f"{name}: {len(data):,} bytes, at most {MAX_FILE_BYTES:,}; split the document")
    folder = sources.uploads / STAGING / run_id
    files: list[SourceFile] = []
    staged: dict[str, str] = {}
    known = {f.doc_id: f for f in _uploaded(sources)}
    deleted: list[str] = []
    for name, data in named.items():
        _check_place(sources.uploads, name)
        path = folder / name
        with writing(sources.uploads):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        stat = path.stat()
        doc_id = doc_id_of(name)
        files.append(SourceFile(path, name, doc_id, stat.st_size, stat.st_mtime_ns, uploaded=True))
        staged[path.relative_to(sources.uploads).as_posix()] = name
        if doc_id in known and known[doc_id].source != name:  # a.MD and a.md are one document
            deleted.append(known[doc_id].source)
    change = {"staged": staged, "deleted": deleted, "restored": sorted(f.doc_id for f in files), "folder": run_id}
    return Intake(tuple(files), change)


def _check_place(uploads: Path, name: str) -> None:
    """Raises BadInput when a file of that name cannot stand in ``uploads``: found out now, not at the switch."""
    for parent in PurePosixPath(name).parents:
        place = uploads / parent
        if str(parent) != "." and (place.is_symlink() or (place.exists() and not place.is_dir())):
            raise BadInput(f"{name}: {place} is no plain folder; give another name")
    if (uploads / name).is_dir():
        raise BadInput(f"{name}: there is a folder of that name in the uploads; give another name")


def without(intake: Intake, rejected: Sequence[Rejected]) -> Intake:
    """``intake`` without the files that turned out to be unusable."""
    bad = {r.source for r in rejected}
    change = dict(intake.change)
    change["staged"] = {at: name for at, name in change.get("staged", {}).items() if name not in bad}
    change["restored"] = [d for d in change.get("restored", ()) if d not in {doc_id_of(name) for name in bad}]
    files = tuple(file for file in intake.files if file.source not in bad)
    return Intake(files, change, (*intake.rejected, *rejected), intake.notes)


def _named(path: Path, sources: Sources) -> tuple[list[SourceFile], list[Rejected], bool]:
    """Files that ``path`` names, what is rejected there, and whether they lie in the source or uploads folder."""
    full = path.resolve()
    if path.is_symlink():
        raise BadInput(f"{path}: a link, which may lead anywhere; copy the file in, or name it by its own path")
    if not full.exists():
        raise BadInput(f"{path}: no such file or folder")
    for root, uploaded in ((sources.root, False), (sources.uploads, True)):
        if root.is_dir() and full.is_relative_to(root.resolve()):
            listing = list_files(root)
            found = [_as(file, uploaded) for file in listing.files if file.path.resolve().is_relative_to(full)]
            if not found:
                raise BadInput(f"{path}: no Markdown that a rebuild reads (README.md and hidden names are skipped)")
            return found, _below(listing.rejected, full.relative_to(root.resolve()).as_posix()), True
    if full.is_dir():
        listing = list_files(full)
        if not listing.files:
            raise BadInput(f"{path}: no Markdown file below it")
        return list(listing.files), list(listing.rejected), False
    name = checked_name(full.name)
    stat = full.stat()
    return [SourceFile(full, name, doc_id_of(name), stat.st_size, stat.st_mtime_ns)], [], False


def _below(rejected: Sequence[Rejected], place: str) -> list[Rejected]:
    return [r for r in rejected if place in (".", r.source) or r.source.startswith(place + "/")]


def _as(file: SourceFile, uploaded: bool) -> SourceFile:
    return SourceFile(file.path, file.source, file.doc_id, file.size, file.mtime_ns, uploaded)


def _uploaded(sources: Sources) -> tuple[SourceFile, ...]:
    return list_files(sources.uploads).files if sources.uploads.is_dir() else ()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise BadInput(f"{path}: cannot be read ({exc.strerror}); check its permissions") from exc

"""The folder of runbooks, read and never written to: each file is a document, or is listed with the reason why not.

Rules: ``**/*.md``; every ``README.md`` and everything whose name starts with a dot is skipped; links are not followed
(one that leads outside is rejected, others are skipped and listed). A document's id is its path without suffix, in NFC;
of two files with one id the first by name is read and the other rejected, whatever order the file system lists them in.
Ids that differ only in case are two documents, with a warning: where case is ignored there can be but one such file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core.analysis import cut_graphemes, has_tokens
from core.errors import BadInput, RagError, redact
from core.knowledge.decode import decode
from core.knowledge.frontmatter import MAX_TITLE_CHARS, BadFrontMatter, one_line, parse_front_matter
from core.knowledge.outline import outline

MAX_FILE_BYTES: Final = 20_000_000
MAX_KEY_BYTES: Final = 480  # of a path in UTF-8, so that an evidence key stays readable and within every store's key
_TOO_LARGE: Final = f"{{}} bytes, at most {MAX_FILE_BYTES}; split the document"
_ENTITY: Final = re.compile(r"&(?:nbsp|ensp|emsp|thinsp|zwnj|zwj|shy|#160|#xa0);", re.IGNORECASE)
_LAST_ENTITY: Final = re.compile(_ENTITY.pattern + r"\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as found: ``path`` opens it, ``source`` names it (relative, NFC, '/'), ``doc_id`` is its document."""

    path: Path
    source: str
    doc_id: str
    size: int
    mtime_ns: int
    uploaded: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file that is not in the index, and why. ``line`` where the fault has one, from 1."""

    source: str
    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class SourceListing:
    files: tuple[SourceFile, ...]
    rejected: tuple[Rejected, ...]
    skipped: tuple[Rejected, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document as read. ``content_hash`` is over metadata and text: an encoding, a BOM or CRLF does not change it."""

    doc_id: str
    source: str
    title: str
    category: str
    kb_scope: str
    keywords: tuple[str, ...]
    aliases: dict[str, str]
    body: str
    body_line: int
    content_hash: str
    encoding: str
    uploaded: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceScan:
    documents: tuple[SourceDocument, ...]
    rejected: tuple[Rejected, ...]
    skipped: tuple[Rejected, ...]
    warnings: tuple[str, ...] = field(default=())


def list_files(root: Path, uploads: Path | None = None) -> SourceListing:
    """Every markdown file below ``root`` and ``uploads``, sorted by id; an upload stands in for a file of the same id.

    Raises BadInput when ``root`` is no readable folder: an unmounted source must not look like an empty one.
    """
    files, rejected, skipped = _list(root, uploaded=False)
    if uploads is not None and uploads.is_dir():
        more, bad, passed = _list(uploads, uploaded=True)
        files, rejected, skipped = [*files, *more], [*rejected, *bad], [*skipped, *passed]
    chosen: dict[str, SourceFile] = {}
    for file in files:
        twin = chosen.get(file.doc_id)
        if twin is None or (file.uploaded and not twin.uploaded):
            chosen[file.doc_id] = file
        elif twin.uploaded == file.uploaded:
            reason = f"has the same id as {str(twin.path)!r} after normalising the file name; rename one of them"
            rejected.append(Rejected(file.source, reason))
    return SourceListing(
        tuple(sorted(chosen.values(), key=lambda f: f.doc_id)),
        tuple(sorted(rejected, key=lambda r: (r.source, r.reason))),
        tuple(sorted(skipped, key=lambda r: (r.source, r.reason))),
        tuple(_differ_in_case(sorted(chosen))),
    )


def _differ_in_case(doc_ids: Iterable[str]) -> Iterator[str]:
    first: dict[str, str] = {}
    for doc_id in doc_ids:
        twin = first.setdefault(doc_id.casefold(), doc_id)
        if twin != doc_id:
            yield f"{doc_id}: differs from {twin} only in case; rename one, for systems that ignore case"


def load_file(file: SourceFile) -> SourceDocument | Rejected:
    """The document in ``file``, or why there is none. Never raises for what stands in the file."""
    try:
        if file.size > MAX_FILE_BYTES:
            raise BadInput(_TOO_LARGE.format(file.size))
        decoded = decode(_read(file))
        meta = parse_front_matter(decoded.text)
    except BadFrontMatter as exc:
        return Rejected(file.source, str(exc), exc.line)
    except RagError as exc:
        return Rejected(file.source, str(exc))
    except OSError as exc:
        return Rejected(file.source, f"cannot be read: {redact(exc.strerror or exc)}")
    if not has_tokens(visible_text(meta.body)):
        return Rejected(file.source, "no indexable text: empty, or only metadata, comments or symbols")
    warnings = list(meta.warnings)
    if decoded.nul_count:
        warnings.append(f"{decoded.nul_count} NUL characters removed")
    if decoded.encoding != "utf-8":
        warnings.append(f"read as {decoded.encoding}")
    title = meta.title or _first_heading(meta.body) or file.doc_id.rsplit("/", 1)[-1]
    document = SourceDocument(
        doc_id=file.doc_id,
        source=file.source,
        title=title,
        category=meta.category,
        kb_scope=meta.kb_scope,
        keywords=meta.keywords,
        aliases={alias: target or title for alias, target in meta.aliases.items()},
        body=meta.body,
        body_line=meta.body_line,
        content_hash="",
        encoding=decoded.encoding,
        uploaded=file.uploaded,
        warnings=tuple(f"{file.source}: {warning}" for warning in warnings),
    )
    return _hashed(document)


def read_source(root: Path, uploads: Path | None = None) -> SourceScan:
    """Everything at once, for sources that fit in memory; a rebuild lists and loads file by file instead."""
    listing = list_files(root, uploads)
    documents: list[SourceDocument] = []
    rejected = list(listing.rejected)
    for file in listing.files:
        loaded = load_file(file)
        if isinstance(loaded, Rejected):
            rejected.append(loaded)
        else:
            documents.append(loaded)
    warnings = (*listing.warnings, *(warning for document in documents for warning in document.warnings))
    rejected.sort(key=lambda r: (r.source, r.reason))
    return SourceScan(tuple(documents), tuple(rejected), listing.skipped, warnings)


def visible_text(body: str) -> str:
    """``body`` without HTML comments and blank entities: what is left to index."""
    kept: list[str] = []
    at = 0
    while (opened := body.find("<!--", at)) >= 0 and (closed := body.find("-->", opened + 4)) >= 0:
        kept.append(body[at:opened])
        at = closed + 3
    return _ENTITY.sub(" ", "".join([*kept, body[at:]]))


def trimmed(body: str, start: int, end: int) -> tuple[int, int]:
    """``start, end`` moved inwards past white space and blank entities; equal when there is nothing else."""
    while start < end:
        if body[start].isspace():
            start += 1
        elif entity := _ENTITY.match(body, start, end):
            start = entity.end()
        else:
            break
    while start < end:
        if body[end - 1].isspace():
            end -= 1
        elif body[end - 1] == ";" and (entity := _LAST_ENTITY.search(body, max(start, end - 8), end)):
            end = entity.start()
        else:
            break
    return start, end


def doc_id_of(relative: str) -> str:
    """``redis/连接池.md`` -> ``redis/连接池``, NFC."""
    return unicodedata.normalize("NFC", relative)[: -len(".md")]


def _hashed(document: SourceDocument) -> SourceDocument:
    parts = [
        document.title,
        document.category,
        document.kb_scope,
        list(document.keywords),
        sorted(document.aliases.items()),
        document.body,
    ]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    fields = {name: getattr(document, name) for name in SourceDocument.__slots__}
    return SourceDocument(**{**fields, "content_hash": digest})


def _first_heading(body: str) -> str:
    section = next(iter(outline(body).children), None)
    return cut_graphemes(one_line(section.heading), MAX_TITLE_CHARS) if section else ""


def _read(file: SourceFile) -> bytes:
    """Opened without following a link: between listing and reading a file or folder may have become one."""
    root = file.path.parents[file.source.count("/")]
    if not file.path.parent.resolve(strict=True).is_relative_to(root.resolve(strict=True)):
        raise BadInput("leads outside the source; copy the file in")
    handle = os.open(file.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as opened:
        data = opened.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise BadInput(_TOO_LARGE.format(f"over {MAX_FILE_BYTES}"))
    return data


def _list(root: Path, *, uploaded: bool) -> tuple[list[SourceFile], list[Rejected], list[Rejected]]:
    if not root.is_dir():
        raise BadInput(f"{root}: no such folder; set knowledge.source or give --source")
    files: list[SourceFile] = []
    rejected: list[Rejected] = []
    skipped: list[Rejected] = []
    for entry, relative in _walk(root, "", rejected):
        shown = _shown(relative)
        if entry.name.startswith("."):
            skipped.append(Rejected(shown, "names that start with a dot are skipped"))
        elif entry.is_symlink():
            (skipped, rejected)[_leads_outside(entry, root)].append(Rejected(shown, _link_reason(entry, root)))
        elif entry.name.lower().endswith(".md"):
            if not entry.is_file(follow_symlinks=False):
                skipped.append(Rejected(shown, "no regular file"))
                continue
            if entry.name.lower() == "readme.md":
                skipped.append(Rejected(shown, "every README.md is skipped"))
                continue
            problem = _name_problem(relative)
            if problem:
                rejected.append(Rejected(shown, problem))
                continue
            stat = entry.stat(follow_symlinks=False)
            source = unicodedata.normalize("NFC", relative)
            files.append(
                SourceFile(Path(entry.path), source, doc_id_of(source), stat.st_size, stat.st_mtime_ns, uploaded)
            )
        else:
            skipped.append(Rejected(shown, "its name does not end in .md"))
    return files, rejected, skipped


def _walk(folder: Path, prefix: str, rejected: list[Rejected]) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Entries below ``folder``; hidden folders and links are handed out themselves and not entered."""
    if len(os.fsencode(prefix)) > 2 * MAX_KEY_BYTES:
        rejected.append(Rejected(_shown(prefix[:-1]), "folders nested too deep to name a document; move them up"))
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as exc:
        if not prefix:
            raise BadInput(f"{folder}: cannot be read ({exc.strerror}); check its permissions") from exc
        rejected.append(Rejected(_shown(prefix[:-1]), f"folder cannot be read: {exc.strerror}"))
        return
    for entry in entries:
        relative = prefix + entry.name
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _walk(Path(entry.path), relative + "/", rejected)
        else:
            yield entry, relative


def _leads_outside(entry: os.DirEntry[str], root: Path) -> bool:
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return True
    return not target.is_relative_to(root.resolve())


def _link_reason(entry: os.DirEntry[str], root: Path) -> str:
    try:
        Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return "a link that leads nowhere; remove it"
    if _leads_outside(entry, root):
        return "a link that leads outside the source; copy the file in"
    return "a link inside the source: its target is read under its own name"


def _shown(relative: str) -> str:
    """A path as it can be printed and stored: NFC, bytes that are no UTF-8 written as escapes."""
    return unicodedata.normalize("NFC", os.fsencode(relative).decode("utf-8", "backslashreplace"))


def _name_problem(relative: str) -> str:
    try:
        size = len(unicodedata.normalize("NFC", relative).encode("utf-8"))
    except UnicodeEncodeError:
        return "the file name is no UTF-8; rename it"
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in relative):
        return "the file name holds control characters; rename it"
    return f"the path has {size} bytes, at most {MAX_KEY_BYTES}; shorten it" if size > MAX_KEY_BYTES else ""

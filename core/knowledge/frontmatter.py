"""Front matter: the YAML block that starts on line 1 and closes on a line of its own.

Values are read as the texts that stand there (no dates, no numbers, no booleans), so nothing can fail to serialise later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from core.errors import BadInput, RagError
from core.filters import clean_filter_value, clean_scope

KNOWN: Final = ("title", "category", "keywords", "aliases", "kb_scope")
MAX_BLOCK_CHARS: Final = 1_000_000
MAX_TITLE_CHARS: Final = 300
MAX_TERM_CHARS: Final = 64
MAX_TERMS_BYTES: Final = 8_192
_SEPARATOR: Final = re.compile(r"[,，、;；\n]")


class BadFrontMatter(BadInput):
    """The metadata cannot be used; ``line`` is the line of the file, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a document says of itself; '' and () where it says nothing. ``body`` starts at ``body_line`` of the file."""

    title: str
    category: str
    kb_scope: str
    keywords: tuple[str, ...]
    aliases: Mapping[str, str | None]
    body: str
    body_line: int
    warnings: tuple[str, ...]


class _TextLoader(yaml.SafeLoader):
    """Scalars stay the texts they are; only null is null. Anchors are refused: they can unfold without end."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # untyped in the stubs
            raise yaml.MarkedYAMLError(problem="anchors and aliases are not allowed", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_front_matter(text: str) -> FrontMatter:
    """Splits and types the metadata of ``text``.

    No block, an unclosed one, or one that is prose: all is body, the latter two with a warning. Raises BadFrontMatter
    for YAML that cannot be read and for values of another type.
    """
    block, body, body_line, warnings = _split(text)
    if block is None:
        return FrontMatter("", "", clean_scope(""), (), {}, body, body_line, tuple(warnings))
    values = _load(block)
    if not isinstance(values, dict):
        note = "the text between the first two --- lines is no metadata and stays in the body"
        return (
            FrontMatter("", "", clean_scope(""), (), {}, text, 1, (note,))
            if values is not None
            else _empty(body, body_line)
        )
    unknown = [str(key) for key in values if key not in KNOWN]
    if unknown and len(unknown) == len(values):
        warnings.append(f"no known key in the front matter ({', '.join(unknown[:5])}); known: {', '.join(KNOWN)}")
    line = _lines_of(block)
    try:
        title = _text(values.get("title"), "title")
        if len(title) > MAX_TITLE_CHARS:
            warnings.append(f"title: {len(title)} characters, cut at {MAX_TITLE_CHARS}")
            title = title[:MAX_TITLE_CHARS]
        category = clean_filter_value(_text(values.get("category"), "category"), "category")
        scope = clean_scope(_text(values.get("kb_scope"), "kb_scope"))
        keywords = _bounded(_terms(values.get("keywords"), "keywords"), "keywords", warnings)
        aliases = _aliases(values.get("aliases"), warnings)
    except BadFrontMatter:
        raise
    except RagError as exc:
        raise BadFrontMatter(str(exc), line.get(str(exc).split(":", 1)[0], 2)) from exc
    return FrontMatter(title, category, scope, keywords, aliases, body, body_line, tuple(warnings))


def _empty(body: str, body_line: int) -> FrontMatter:
    return FrontMatter("", "", clean_scope(""), (), {}, body, body_line, ())


def _split(text: str) -> tuple[str | None, str, int, list[str]]:
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, text, 1, []
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in {"---", "..."}:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 2, []
    return None, text, 1, ["the first line is --- but no line closes the front matter; all of it is body"]


def _load(block: str) -> Any:
    if len(block) > MAX_BLOCK_CHARS:
        raise BadFrontMatter(f"front matter: {len(block)} characters, at most {MAX_BLOCK_CHARS}; shorten it", 1)
    try:
        return yaml.load(block, Loader=_TextLoader)  # a SafeLoader that also refuses anchors
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        raise BadFrontMatter(
            f"front matter is no YAML: {exc.problem}; quote the value or mend the indent",
            (mark.line if mark else 0) + 2,
        ) from exc
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise BadFrontMatter(f"front matter is no YAML: {' '.join(str(exc).split())[:200]}", 1) from exc


def _lines_of(block: str) -> dict[str, int]:
    return {line.split(":", 1)[0].strip(): number for number, line in enumerate(block.split("\n"), 2) if ":" in line}


def _text(value: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name}: expected one text, found a {'list' if isinstance(value, list) else 'mapping'}")
    text = value.strip()
    return " ".join(text.split()) if name == "title" else text


def _terms(value: Any, name: str) -> Iterator[str]:
    """One text is split at commas (、，, ;), lists are flattened; every term is stripped."""
    if value is None:
        return
    if isinstance(value, str):
        yield from (part.strip() for part in _SEPARATOR.split(value))
    elif isinstance(value, list):
        for item in value:
            yield from _terms(item, name)
    else:
        raise BadInput(f"{name}: expected a list of texts, found a mapping")


def _bounded(terms: Iterable[str], name: str, warnings: list[str]) -> tuple[str, ...]:
    """Distinct terms of at most 64 characters and 8 KiB together; what is left out is counted in a warning."""
    distinct = list(dict.fromkeys(term for term in terms if term))
    fitting = [term for term in distinct if len(term) <= MAX_TERM_CHARS]
    if len(fitting) < len(distinct):
        warnings.append(f"{name}: {len(distinct) - len(fitting)} longer than {MAX_TERM_CHARS} characters left out")
    size = sum(len(term.encode("utf-8", "surrogatepass")) for term in fitting)
    kept: list[str] = []
    used = 0
    for term in fitting:
        used += len(term.encode("utf-8", "surrogatepass"))
        if used > MAX_TERMS_BYTES:
            warnings.append(
                f"{name}: {size} bytes, at most {MAX_TERMS_BYTES}; the first {len(kept)} of {len(fitting)} kept"
            )
            break
        kept.append(term)
    return tuple(kept)


def _aliases(value: Any, warnings: list[str]) -> dict[str, str | None]:
    """alias -> canonical term; None stands for the document's title.

    ``{OOM: OutOfMemory}``, ``{OutOfMemory: [OOM, 内存溢出]}`` and the plain list ``[OOM]`` (canonical: the title) are read.
    """
    pairs: list[tuple[str, str | None]] = []
    if isinstance(value, dict):
        for key, target in value.items():
            name = str(key).strip()
            if isinstance(target, list):
                pairs += [(alias, name) for alias in _terms(target, "aliases")]
            elif isinstance(target, str) and target.strip():
                pairs.append((name, target.strip()))
            elif target is not None:
                raise BadInput("aliases: expected alias: term, or term: [aliases]")
    else:
        pairs = [(alias, None) for alias in _terms(value, "aliases")]
    names = set(_bounded((alias for alias, _ in pairs), "aliases", warnings))
    return {alias: target for alias, target in pairs if alias in names and len(target or "") <= MAX_TERM_CHARS}

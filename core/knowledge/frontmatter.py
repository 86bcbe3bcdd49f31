"""Front matter: the YAML block that starts on line 1 and closes on a line of its own.

Values are read as the texts that stand there (no dates, no numbers, no booleans), so nothing can fail to serialise later.
Keys are read without regard to case, and ``kb-scope`` as ``kb_scope``: a scope that is spelled a little differently must
not fall back to the default one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from core.analysis import cut_graphemes
from core.errors import BadInput, RagError
from core.filters import clean_filter_value, clean_scope

KNOWN: Final = ("title", "category", "keywords", "aliases", "kb_scope")
MAX_BLOCK_CHARS: Final = 262_144
MAX_TITLE_CHARS: Final = 300
MAX_TERM_CHARS: Final = 64
MAX_TERMS_BYTES: Final = 8_192
_SEPARATOR: Final = re.compile(r"[,，、;；\n]")
_KEY_LINE: Final = re.compile(r"([\w-]+)[ \t]*:(?=\s|$)")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


_PROSE: Final = "the text between the first two --- lines is no metadata and stays in the body"


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
    """Scalars stay the texts they are; only null is null. Refused: anchors (they unfold without end), tags (their values
    are no texts) and a key that stands twice in one mapping."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # untyped in the stubs
        if isinstance(event, yaml.events.AliasEvent) or event.anchor is not None:
            raise _refused("anchors and aliases are not allowed; write the value out", event.start_mark)
        if getattr(event, "tag", None) not in {None, "!"}:
            raise _refused(f"the tag {event.tag!r} is not allowed; write a plain value", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key.value, str) else ""
            if name and name in seen:
                raise _refused(f"{name!r} stands twice; keep one", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _refused(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_front_matter(text: str) -> FrontMatter:
    """Splits and types the metadata of ``text``.

    All is body where there is no block; with a warning where the block is unclosed or prose: no mapping, without a key we
    know and with a blank line first or keys that are no plain names. Raises BadFrontMatter for YAML that cannot be read
    and for values of another type.
    """
    block, body, body_line, warnings = _split(text)
    if block is None:
        return _bare(body, body_line, *warnings)
    line = _lines_of(block)
    if block.startswith("\n") and not any(_key(name) in KNOWN for name in line):
        return _bare(text, 1, _PROSE)
    values = _load(block)
    if values is None:
        return _bare(body, body_line)
    if not isinstance(values, dict):
        return _bare(text, 1, _PROSE)
    values = _known_keys(values, line)
    unknown = [str(key) for key in values if key not in KNOWN]
    if unknown and len(unknown) == len(values):
        if not all(map(_PLAIN_KEY.fullmatch, unknown)):
            return _bare(text, 1, _PROSE)
        warnings.append(f"no known key in the front matter ({', '.join(unknown[:5])}); known: {', '.join(KNOWN)}")
    try:
        title = _text(values.get("title"), "title")
        if len(title) > MAX_TITLE_CHARS:
            warnings.append(f"title: {len(title)} characters, cut at {MAX_TITLE_CHARS}")
            title = cut_graphemes(title, MAX_TITLE_CHARS)
        category = clean_filter_value(_text(values.get("category"), "category"), "category")
        scope = clean_scope(_text(values.get("kb_scope"), "kb_scope"))
        keywords = _bounded(_terms(values.get("keywords"), "keywords"), "keywords", warnings)
        aliases = _aliases(values.get("aliases"), warnings)
    except BadFrontMatter:
        raise
    except RagError as exc:
        named = str(exc).split(":", 1)[0]
        raise BadFrontMatter(str(exc), next((line[key] for key in line if _key(key) == named), 2)) from exc
    return FrontMatter(title, category, scope, keywords, aliases, body, body_line, tuple(warnings))


def _bare(body: str, body_line: int, *warnings: str) -> FrontMatter:
    return FrontMatter("", "", clean_scope(""), (), {}, body, body_line, warnings)


def _key(name: str) -> str:
    """A key as it is compared: ``KB-Scope`` is ``kb_scope``."""
    return name.strip().casefold().replace("-", "_")


def _known_keys(values: dict[Any, Any], lines: Mapping[str, int]) -> dict[Any, Any]:
    """``values`` with known keys in our spelling; a key that stands there in two spellings is refused."""
    spelled: dict[Any, Any] = {}
    for name, value in values.items():
        key = _key(name) if isinstance(name, str) and _key(name) in KNOWN else name
        if key in spelled:
            raise BadFrontMatter(f"{key}: stands twice, also as {name!r}; keep one", lines.get(name, 2))
        spelled[key] = value
    return spelled


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
        problem = str(exc.problem)
        hint = "" if "; " in problem else "; quote the value or mend the indent"
        raise BadFrontMatter(f"front matter is no YAML: {problem}{hint}", (mark.line if mark else 0) + 2) from exc
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise BadFrontMatter(f"front matter is no YAML: {' '.join(str(exc).split())[:200]}", 1) from exc


def _lines_of(block: str) -> dict[str, int]:
    """The line of the file on which each key of the outermost mapping stands."""
    found = ((_KEY_LINE.match(line), number) for number, line in enumerate(block.split("\n"), 2))
    return {match[1]: number for match, number in found if match}


def _text(value: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name}: expected one text, found a {'list' if isinstance(value, list) else 'mapping'}")
    return one_line(value) if name == "title" else value.strip()


def _terms(value: Any, name: str) -> Iterator[str]:
    """One text is split at commas (、，, ;), lists are flattened; every term is stripped."""
    if value is None:
        return
    if isinstance(value, str):
        yield from map(one_line, _SEPARATOR.split(value))
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
            name = one_line(key) if isinstance(key, str) else ""
            if isinstance(target, list):
                pairs += [(alias, name) for alias in _terms(target, "aliases")]
            elif isinstance(target, str):
                pairs += [(name, one_line(target))] * bool(one_line(target))
            elif target is not None:
                raise BadInput("aliases: expected alias: term, or term: [aliases]")
    else:
        pairs = [(alias, None) for alias in _terms(value, "aliases")]
    names = set(_bounded((alias for alias, _ in pairs), "aliases", warnings))
    return {alias: target for alias, target in pairs if alias in names and len(target or "") <= MAX_TERM_CHARS}


def one_line(text: str) -> str:
    """``text`` on one line as it is shown; escapes such as ``"\\ud83d\\ude00"`` are put together and those of control characters left out."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return " ".join("".join(c for c in whole if c.isspace() or unicodedata.category(c) != "Cc").split())

"""Packs evidence into one bounded text with citation anchors (DESIGN 3.8).

A block is a header and the content. The header's first line is ``=== [n] evidence key``; header values stand on one
line each. A line of content that reads like such a first line (after compatibility folding, white space and invisible
characters left out) is written with ``| `` in front: only the packer can open a block.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.analysis import cut_graphemes
from core.errors import InvalidSettings
from core.model import Candidate, ContextPack, DropReason, Evidence, PackedSource, Stage, evolve

STRATEGY: Final = "rank_order_char_budget"
MARK: Final = "==="
QUOTE: Final = "| "
ELLIPSIS: Final = "..."
SEPARATOR: Final = "\n\n"
INCLUDED: Final = "included"
TRIMMED: Final = "trimmed"
OMITTED: Final = "omitted"
_LINE: Final = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BREAKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_EQUALS: Final = re.compile(r"[=\uff1d\ufe66\u2a75\u2a76\u207c\u208c]")  # all that folds to "="
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Me"})


@dataclass(frozen=True, slots=True)
class Packed:
    pack: ContextPack
    count_in: int
    count_out: int


def pack(evidence: Sequence[Evidence], char_budget: int) -> Packed:
    """Blocks in the order given, within ``char_budget`` code points of the finished text, separators included.

    What does not fit is cut, between graphemes, and ends in ``...``; where not even the header and a piece of content
    fit, the block is left out and named, and a later, smaller one may still go in. Raises InvalidSettings for a budget
    below 1.
    """
    if char_budget < 1:
        raise InvalidSettings(f"pack.char_budget: {char_budget} packs nothing; give 1 or more")
    blocks: list[str] = []
    sources: list[PackedSource] = []
    used = 0
    for piece in evidence:
        separator = len(SEPARATOR) if blocks else 0
        block, state, content_chars = _block(piece, len(blocks) + 1, char_budget - used - separator)
        if state != OMITTED:
            blocks.append(block)
            used += separator + len(block)
        sources.append(PackedSource(piece.evidence_key, state, len(block), content_chars))
    text = SEPARATOR.join(blocks)
    return Packed(
        ContextPack(
            packed_text=text,
            strategy=STRATEGY,
            char_budget=char_budget,
            used_chars=len(text),
            included_sources=tuple(s.evidence_key for s in sources if s.state != OMITTED),
            omitted_sources=tuple(s.evidence_key for s in sources if s.state == OMITTED),
            sources=tuple(sources),
        ),
        count_in=len(evidence),
        count_out=len(blocks),
    )


def mark_packed(candidates: Sequence[Candidate], packed: ContextPack) -> tuple[Candidate, ...]:
    """The candidates with their ``pack_rank``; those left out are marked ``pack_budget``. Pack and projection are two
    views of the same evidence: a ``projection_rank`` beside that mark says that the agent sees the piece anyhow."""
    ranks = {key: rank for rank, key in enumerate(packed.included_sources, start=1)}
    omitted = frozenset(packed.omitted_sources)
    return tuple(_mark(c, ranks, omitted) if c.live else c for c in candidates)


def _mark(candidate: Candidate, ranks: dict[str, int], omitted: frozenset[str]) -> Candidate:
    if candidate.evidence_key in ranks:
        return evolve(candidate, pack_rank=ranks[candidate.evidence_key])
    if candidate.evidence_key in omitted:
        return evolve(candidate, drop_stage=Stage.PACK, drop_reason=DropReason.PACK_BUDGET)
    return candidate


def _block(piece: Evidence, number: int, room: int) -> tuple[str, str, int]:
    """The block as text, its state, and how many characters of content it holds."""
    header = header_of(piece, number)
    content = harmless(piece.content.strip("\n"))
    if not content:
        return (header, INCLUDED, 0) if len(header) <= room else ("", OMITTED, 0)
    block = f"{header}\n{content}"
    if len(block) <= room:
        return block, INCLUDED, len(content)
    cut = cut_graphemes(content, max(0, room - len(header) - 1 - len(ELLIPSIS)))
    if not cut:
        return "", OMITTED, 0
    return f"{header}\n{cut}{ELLIPSIS}", TRIMMED, len(cut)


def header_of(piece: Evidence, number: int) -> str:
    """Number, citation anchor, title, breadcrumb, source: a line each, those that are empty left out."""
    lines = [f"{MARK} [{number}] {_one_line(piece.evidence_key)}"]
    named = (("Title", piece.title), ("Path", piece.breadcrumb), ("Source", piece.source))
    lines += [f"{name}: {_one_line(value)}" for name, value in named if value]
    return "\n".join(lines)


def harmless(content: str) -> str:
    """``content`` with every line that could be taken for the start of a block quoted."""
    if not _EQUALS.search(content):
        return content
    return _LINE.sub(lambda line: QUOTE + line[0] if _opens_block(line[0]) else line[0], content)


def _opens_block(line: str) -> bool:
    visible = ""
    for char in unicodedata.normalize("NFKC", line):
        if char.isspace() or unicodedata.category(char) in _INVISIBLE:
            continue
        visible += char
        if not MARK.startswith(visible):
            return False
        if visible == MARK:
            return True
    return False


def _one_line(value: str) -> str:
    return _BREAKS.sub(" ", value).strip()

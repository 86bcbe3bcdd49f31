"""How much each field of the vector store holds, in bytes of UTF-8, and the check that runs before anything is sent.

Milvus counts bytes, Milvus Lite counts characters: the smaller meaning holds for both, so that what one accepts the
other does too. A row that does not fit is refused as a whole; nothing is shortened here, since a shortened id or
category would name something else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from core.errors import BadInput
from core.model import Chunk, IndexRow

FIELD_BYTES: Final[Mapping[str, int]] = {
    "id": 1024,
    "content": 65_535,
    "search_text": 65_535,
    "category": 256,
    "kb_scope": 256,
    "doc_id": 1000,
    "metadata": 65_536,
}


def metadata_of(chunk: Chunk) -> dict[str, Any]:
    """The ``metadata`` field: these keys and no others."""
    return {
        "docId": chunk.doc_id,
        "chunkIndex": chunk.chunk_index,
        "category": chunk.category,
        "kb_scope": chunk.kb_scope,
        "title": chunk.title,
        "breadcrumb": chunk.breadcrumb,
        "source": chunk.source,
        "revision": chunk.revision,
    }


def oversize(chunk: Chunk, search_text: str = "") -> str | None:
    """Why this chunk cannot be stored, as one line with field, size and limit; None when it can."""
    fields = {
        "id": chunk.evidence_key,
        "doc_id": chunk.doc_id,
        "content": chunk.content,
        "search_text": search_text,
        "category": chunk.category,
        "kb_scope": chunk.kb_scope,
        "metadata": json.dumps(metadata_of(chunk), ensure_ascii=False),
    }
    if not chunk.evidence_key:
        return "id: empty; every chunk needs its evidence key"
    for name, text in fields.items():
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            return f"{name} of {_shown(chunk)}: holds half a surrogate pair; repair the text of the document"
        if size > FIELD_BYTES[name]:
            return (
                f"{name} of {_shown(chunk)}: {size:,} bytes, the field holds {FIELD_BYTES[name]:,}; "
                "shorten or split the document"
            )
    return None


def check_rows(rows: Sequence[IndexRow], dimension: int) -> None:
    """Raises BadInput, naming row, field, size and limit, when one of ``rows`` cannot be stored: then none is sent.

    Vectors are float32 of shape (dimension,), every number finite. Equal keys in one batch are refused, since Milvus
    would keep both and Milvus Lite the last.
    """
    seen: set[str] = set()
    for row in rows:
        key = row.chunk.evidence_key
        if key in seen:
            raise BadInput(f"id {_shown(row.chunk)}: twice in one batch; give every chunk its own key")
        seen.add(key)
        problem = oversize(row.chunk, row.search_text)
        if problem:
            raise BadInput(problem)
        if not fits(row.vector, dimension):
            raise BadInput(
                f"vector of {_shown(row.chunk)}: want {dimension} finite numbers; look at the embedding model's answer"
            )


def fits(vector: Any, dimension: int) -> bool:
    """True for a vector of shape (dimension,) that is finite as float32."""
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which is what is asked here
        array = np.asarray(vector, dtype=np.float32)
    return array.shape == (dimension,) and bool(np.isfinite(array).all())


def finite(number: float | None) -> float | None:
    """``number``, or None where it is missing, infinite or not a number."""
    return None if number is None or not math.isfinite(number) else float(number)


def _shown(chunk: Chunk) -> str:
    key = chunk.evidence_key.encode("utf-8", "replace").decode("utf-8")
    return repr(key if len(key) <= 80 else key[:77] + "...")

"""Between our values and the store's rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.model import NO_CATEGORY, Chunk, IndexRow, split_evidence_key
from core.store_limits import metadata_of


def entity_of(row: IndexRow) -> dict[str, Any]:
    """All fields of ``row``: an upsert on Milvus Lite keeps the old value of any field left out."""
    chunk = row.chunk
    return {
        "id": chunk.evidence_key,
        "content": chunk.content,
        "search_text": row.search_text,
        "vector": np.asarray(row.vector, dtype=np.float32).tolist(),
        "category": chunk.category,
        "kb_scope": chunk.kb_scope,
        "doc_id": chunk.doc_id,
        "metadata": metadata_of(chunk),
    }


def chunk_of(key: str, entity: Mapping[str, Any]) -> Chunk:
    """The chunk behind a hit. The filter fields speak for themselves; the rest comes from ``metadata``."""
    metadata = entity.get("metadata")
    data: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    index = _whole(data.get("chunkIndex"))
    if index is None:
        parts = split_evidence_key(key)
        index = parts[1] if parts else None
    return Chunk(
        evidence_key=key,
        doc_id=_text(entity.get("doc_id"), ""),
        chunk_index=index,
        content=_text(entity.get("content"), ""),
        title=_text(data.get("title"), ""),
        breadcrumb=_text(data.get("breadcrumb"), ""),
        source=_text(data.get("source"), ""),
        category=_text(entity.get("category"), NO_CATEGORY),
        kb_scope=_text(entity.get("kb_scope"), ""),
        revision=_whole(data.get("revision")),
    )


def vector_of(entity: Mapping[str, Any]) -> Any:
    """The stored vector as float32, or None when it was not read or is not finite."""
    stored = entity.get("vector")
    if stored is None:
        return None
    vector = np.asarray(stored, dtype=np.float32)
    return vector if np.isfinite(vector).all() else None


def _text(value: Any, default: str) -> str:
    return value if isinstance(value, str) else default


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

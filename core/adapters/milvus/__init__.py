"""Milvus and Milvus Lite behind ``core.ports.VectorIndex`` and ``core.ports.IndexAdmin``."""

from core.adapters.milvus.index import MilvusIndex

__all__ = ["MilvusIndex"]

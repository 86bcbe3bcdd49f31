"""Milvus and Milvus Lite behind ``core.ports.VectorIndex`` and ``core.ports.IndexAdmin``."""

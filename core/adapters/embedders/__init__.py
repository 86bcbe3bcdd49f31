"""Embedders behind ``core.ports.Embedder``: two models that ship inside Python packages, and any HTTP endpoint."""

from core.adapters.embedders.endpoint import EndpointEmbedder
from core.adapters.embedders.packaged import E5Embedder, UseEmbedder

__all__ = ["E5Embedder", "EndpointEmbedder", "UseEmbedder"]

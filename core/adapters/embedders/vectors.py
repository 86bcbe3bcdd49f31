"""The one check every vector passes, whatever made it: shape, finiteness, unit length."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.errors import ModelUnavailable


def checked(raw: Any, count: int, dimension: int, model: str) -> Any:
    """``raw`` as float32 of shape (count, dimension) with unit rows.

    Raises ModelUnavailable with both numbers when the shape is another one, and when a vector is NaN, infinite or zero:
    such vectors rank by noise and Milvus Lite would take them.
    """
    try:
        vectors = np.asarray(raw, dtype=np.float32)
    except (TypeError, ValueError) as exc:
        raise ModelUnavailable(f"{model}: the vectors are no rectangle of numbers; check the model") from exc
    if vectors.shape != (count, dimension):
        raise ModelUnavailable(
            f"{model}: expected {count} vectors of dimension {dimension}, got shape {vectors.shape}; "
            "set embedding.dimension to the model's and rebuild"
        )
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if count and not (np.isfinite(norms).all() and (norms > 1e-12).all()):
        bad = int(np.argmin(np.isfinite(norms) & (norms > 1e-12)))
        raise ModelUnavailable(f"{model}: vector {bad} of {count} is zero or not finite; the model gave nonsense")
    return (vectors / norms[:, None]).astype(np.float32)

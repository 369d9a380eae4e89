"""Rows scaled to length 1, and rows of nodes of several kinds made comparable. NumPy alone: no torch is imported.

A user does not lie near its items: what all users have in common sets them apart. So columns are standardised over the
nodes of each kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from clnr.graph.csr import Array

_LEAST_DEVIATION = 1e-6


def unit(z: Array) -> Array:
    """Rows scaled to length 1; a row of zeros stays."""
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return np.divide(z, length, out=np.zeros_like(z), where=length > 0)


def sparse_unit(z: Any) -> Any:
    """``unit`` of a CSR matrix; lengths are summed in float64."""
    squares = np.bincount(np.repeat(np.arange(z.shape[0]), np.diff(z.indptr)), weights=z.data * z.data, minlength=z.shape[0])
    length = np.sqrt(squares)
    scaled = z.copy()
    scaled.data = (z.data / np.repeat(np.where(length > 0, length, 1), np.diff(z.indptr))).astype(z.dtype, copy=False)
    return scaled


class KindScale:
    """What the rows of one kind have in common: the mean and the deviation of each column, from rows in parts."""

    def __init__(self, width: int):
        self._count, self._sum, self._squares = 0, np.zeros(width), np.zeros(width)

    def add(self, z: Array) -> None:
        """More rows of this kind."""
        rows = z.astype(np.float64)
        self._count += len(rows)
        self._sum += rows.sum(0)
        self._squares += np.square(rows).sum(0)

    def standardise(self, z: Array) -> Array:
        """Rows whose columns are standardised, scaled to length 1."""
        mean = self._sum / max(1, self._count)
        deviation = np.sqrt(np.maximum(0, self._squares / max(1, self._count) - mean**2))
        scale = np.divide(1, deviation, out=np.zeros_like(mean), where=deviation > _LEAST_DEVIATION)
        return unit(((z - mean) * scale).astype(np.float32))

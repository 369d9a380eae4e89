"""Rows of nodes of several kinds, such as users and items, made comparable. NumPy alone: no torch is imported.

A user does not lie near its items: what all users have in common sets them apart. So columns are standardised over the nodes
of each kind, and a node is compared with nodes of another kind by its neighbours of that kind: a user by its items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from clnr.graph.csr import Array

_LEAST_DEVIATION = 1e-6
_BLOCK_PAIRS = 1 << 16


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


def kind_cosines(rows: Any, pairs: Array, kinds: Array, neighbours: Any) -> Array:
    """How similar the two nodes of each pair, [2, n], are, which may be of different kinds, numbered from 0 on.

    Of one kind: the cosine of their standardised rows. Of two: the mean of two cosines, each of one node and the neighbours of
    the other that are of its own kind; 0 in place of one where there are no such neighbours. Rows are those of all nodes: an
    array, or a sparse matrix, whose columns are not standardised. Neighbours, in either direction, are a CSR matrix.
    """
    c = standardised(rows, kinds) if isinstance(rows, np.ndarray) else sparse_unit(rows)
    blocks = np.array_split(pairs, max(1, -(-pairs.shape[1] // _BLOCK_PAIRS)), axis=1)
    return np.concatenate([_block_cosines(c, a, b, kinds, neighbours) for a, b in blocks])


def standardised(rows: Array, kinds: Array) -> Array:
    """Rows whose columns are standardised over the nodes of each kind, scaled to length 1."""
    result = np.empty(rows.shape, np.float32)
    for kind in np.unique(kinds):
        scale = KindScale(rows.shape[1])
        scale.add(rows[kinds == kind])
        result[kinds == kind] = scale.standardise(rows[kinds == kind])
    return result


def _block_cosines(c: Any, a: Array, b: Array, kinds: Array, neighbours: Any) -> Array:
    there, back = (_dots(_mean_neighbour(c, x, kinds[y], kinds, neighbours), c[y]) for x, y in ((a, b), (b, a)))
    return np.where(kinds[a] == kinds[b], _dots(c[a], c[b]), (there + back) / 2)


def _mean_neighbour(c: Any, nodes: Array, wanted: Array, kinds: Array, neighbours: Any) -> Any:
    """For each of some nodes the direction of its neighbours of a wanted kind; zeros if it has none."""
    import scipy.sparse as sp

    linked = sp.csr_array(neighbours[nodes])
    of_kind = kinds[linked.indices] == np.repeat(wanted, np.diff(linked.indptr))
    chosen = sp.csr_array((of_kind.astype(np.float32), linked.indices, linked.indptr), shape=linked.shape)
    means = chosen @ c
    return sparse_unit(means) if sp.issparse(means) else unit(means)


def _dots(x: Any, y: Any) -> Array:
    """The inner product of each row with the row beside it."""
    if isinstance(x, np.ndarray):
        return np.einsum("nd,nd->n", x, y).astype(np.float64)
    return np.asarray(x.multiply(y).sum(1), np.float64).ravel()

"""Features where there are none: what a node's place in the graph tells, and a mark of its own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from clnr.errors import DataError
from clnr.graph.csr import Array

SHAPE = 4
MARKS = 128
_ROWS = 1 << 13


@dataclass(frozen=True)
class StructuralFeatures:
    """How the columns of ``shape`` are scaled, kept so that a later graph is scaled alike.

    Attributes:
        centre: What is taken from each.
        scale: What it is then divided by.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (*self.centre, *self.scale)
        right = len(self.centre) == len(self.scale) == SHAPE and all(isinstance(each, int | float) for each in numbers)
        if not (right and np.isfinite(numbers).all() and 0 not in self.scale):
            raise DataError("this is no feature encoder of a table: the numbers of its structure are out of range")

    @property
    def width(self) -> int:
        return SHAPE + MARKS

    @classmethod
    def fit(cls, columns: Array) -> StructuralFeatures:
        """To mean 0 and variance 1; what is the same everywhere is not scaled."""
        spread = columns.std(0, dtype=np.float64)
        # Less than this is rounding, as among the equal degrees of a ring.
        scale = np.where(spread > 1e-6, spread, 1)
        return cls(tuple(columns.mean(0, dtype=np.float64).tolist()), tuple(scale.tolist()))

    def features(self, columns: Array, ids: Array) -> Array:
        """One row a node: its shape, scaled, and 128 normal numbers that follow from its id.

        Degrees alone cannot tell one neighbourhood from another; sums of neighbours' marks can, and a node that comes tomorrow
        has its mark, too.
        """
        out = np.empty((len(columns), self.width), np.float32)
        out[:, :SHAPE] = (columns - np.array(self.centre)) / np.array(self.scale)
        for start in range(0, len(ids), _ROWS):
            out[start : start + _ROWS, SHAPE:] = marks(ids[start : start + _ROWS])
        return out


def shape(source: Array, target: Array, count: int) -> Array:
    """One row a node: the log of its degree, and the mean, least and largest of that among its neighbours."""
    ones = np.ones(len(source), np.float32)
    adjacency = sp.coo_array((ones, (source, target)), shape=(count, count)).tocsr()
    adjacency = ((adjacency + adjacency.T) > 0).astype(np.float32).tocsr()
    count_of = np.diff(adjacency.indptr)
    degree = np.log1p(count_of).astype(np.float32)
    neighbours = degree[adjacency.indices]
    some = count_of > 0
    columns = [degree]
    for reduce in (np.add, np.minimum, np.maximum):
        values = np.zeros(count, np.float32)
        if some.any():
            values[some] = reduce.reduceat(neighbours, adjacency.indptr[:-1][some])
        columns.append(values)
    columns[1] /= np.maximum(1, count_of)
    return np.stack(columns, 1)


def marks(ids: Array) -> Array:
    """Numbers that follow from each id alone, of the normal law, all squares of a row adding up to about 1.

    Each is one of 65,536 equally likely quantiles, which 16 bits of a hash choose.
    """
    from clnr import rng  # It imports torch, which takes seconds.

    digests = b"".join(
        [hashlib.blake2b(str(each).encode(errors="surrogatepass"), digest_size=8).digest() for each in ids.tolist()]
    )
    words = np.frombuffer(digests, "<u4").astype(np.uint32).reshape(-1, 2)
    column = np.arange(MARKS // 2, dtype=np.uint32)
    drawn: Array = rng.draw(rng.key(0, "mark"), words[:, :1], words[:, 1:] + column)
    return np.concatenate([_QUANTILES[drawn >> 16], _QUANTILES[drawn & 0xFFFF]], 1)


_QUANTILES = (ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)) / np.sqrt(MARKS)).astype(np.float32)

"""Features for graphs without any: degrees of a node and of its neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import Array

DEGREES = 4
NODES_AT_A_TIME = 1 << 17


@dataclass(frozen=True)
class StructuralFeatures:
    """How the columns of ``degree_features`` are scaled; saved, so that a later graph is scaled alike.

    Attributes:
        centre: Subtracted from each.
        scale: Each is then divided by it.
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = (*self.centre, *self.scale)
        right = len(self.centre) == len(self.scale) == DEGREES and all(isinstance(each, int | float) for each in numbers)
        if not (right and np.isfinite(numbers).all() and 0 not in self.scale):
            raise DataError("not a valid saved feature encoder: the numbers of its structure are out of range")

    @classmethod
    def fit(cls, columns: Array) -> StructuralFeatures:
        """To mean 0 and variance 1; a constant column is not scaled."""
        starts = range(0, len(columns), NODES_AT_A_TIME)
        return cls.fit_parts((columns[start : start + NODES_AT_A_TIME] for start in starts), len(columns))

    @classmethod
    def fit_parts(cls, parts: Iterable[Array], count: int) -> StructuralFeatures:
        """``fit`` of columns that come in parts of ``NODES_AT_A_TIME`` of ``count`` rows."""
        mean, square = np.zeros(DEGREES), np.zeros(DEGREES)
        for part in parts:
            mean += part.sum(0, np.float64) / count
            square += np.square(part, dtype=np.float64).sum(0) / count
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        # Less than this is rounding error, as in a ring, where all degrees are equal.
        scale = np.where(spread > 1e-6, spread, 1)
        return cls(tuple(mean.tolist()), tuple(scale.tolist()))

    def features(self, columns: Array) -> Array:
        """One row per node: its degree features, scaled."""
        return ((columns - np.array(self.centre)) / np.array(self.scale)).astype(np.float32)


def degree_features(source: Array, target: Array, count: int) -> Array:
    """One row per node: the log of its degree, and its mean, minimum and maximum among the neighbours."""
    ones = np.ones(len(source), np.float32)
    adjacency = sp.coo_array((ones, (source, target)), shape=(count, count)).tocsr()
    adjacency = neighbours(adjacency, adjacency.T)
    degree = log_degree(adjacency)
    return neighbour_degrees(degree, degree, adjacency)


def neighbours(incoming: sp.csr_array, outgoing: sp.csr_array) -> sp.csr_array:
    """The neighbours of nodes in either direction, each once."""
    return ((incoming + outgoing) > 0).astype(np.float32).tocsr()


def log_degree(adjacency: sp.csr_array) -> Array:
    """The log of the degree of each row's node."""
    return np.log1p(np.diff(adjacency.indptr)).astype(np.float32)


def neighbour_degrees(of_nodes: Array, degree: Array, adjacency: sp.csr_array) -> Array:
    """The degree features of some nodes, given the logs of their degrees, those of all nodes, and rows of ``neighbours``."""
    counts = np.diff(adjacency.indptr)
    of_neighbours = degree[adjacency.indices]
    some = counts > 0
    columns = [of_nodes]
    for reduce in (np.add, np.minimum, np.maximum):
        values = np.zeros(len(of_nodes), np.float32)
        if some.any():
            values[some] = reduce.reduceat(of_neighbours, adjacency.indptr[:-1][some])
        columns.append(values)
    columns[1] /= np.maximum(1, counts)
    return np.stack(columns, 1)

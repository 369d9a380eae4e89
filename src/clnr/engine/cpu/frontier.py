"""The nodes that a sampled step reaches, found by a CPU: those that the edges of the wanted nodes lead to, and no others."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from clnr.engine.cpu.csr_arrays import CSRArrays, MatrixRows, numba_kernels
from clnr.engine.view import View
from clnr.graph.csr import Array


class Frontier:
    """The nodes within some hops of the wanted ones, against the direction of the edges that a view keeps and takes.

    Nodes are in the order of their distance, so that those within fewer hops, and their rows of the matrix, come first.
    A node's degree is that in the whole view: it follows from the node's own edges.
    It notes in ``asked`` what it was asked for.
    """

    def __init__(self, view: View, wanted: Array, kept: MatrixRows, asked: set[tuple[str, int]]):
        self._view, self._kept, self._asked = view, kept, asked
        self._features: dict[int, Tensor | sp.csr_array] = {}
        self._nodes, self._sizes = wanted, [len(wanted)]
        self._sums = np.empty(0, np.float32)
        self._entries = CSRArrays(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        self._matrix: CSRArrays | None = None

    def nodes(self, hops: int) -> Array:
        """The nodes within ``hops`` hops."""
        self._asked.add(("nodes", hops))
        while len(self._sizes) <= hops:
            self._step()
        return self._nodes[: self._sizes[hops]]

    def matrix(self, hops: int) -> CSRArrays:
        """What propagates from the nodes within ``hops`` hops to those within one hop fewer."""
        self._asked.add(("matrix", hops))
        self.nodes(hops)
        if self._matrix is None:
            if self._view.propagation_matrix is None:
                further = self._kept.sums(self._nodes[len(self._sums) :])
                self._matrix = self._entries.scaled(np.concatenate([self._sums, further]))
            else:
                self._matrix = self._entries
        rows = self._sizes[hops - 1]
        indptr = self._matrix.indptr[: rows + 1]
        return CSRArrays(indptr, self._matrix.columns[: indptr[-1]], self._matrix.values[: indptr[-1]])

    def features(self, hops: int) -> Tensor | sp.csr_array:
        """The features of the nodes within ``hops`` hops, as ``DeviceGraph.feature_rows`` has them."""
        self._asked.add(("features", hops))
        nodes = self.nodes(hops)
        if hops not in self._features:
            further = [self._features[each] for each in self._features if each > hops]
            self._features[hops] = further[0][: len(nodes)] if further else self._view.device_graph.feature_rows(nodes)
        return self._features[hops]

    def read(self, asked: Collection[tuple[str, int]]) -> None:
        """Find and read what will be asked for, as another frontier was."""
        for what, hops in sorted(asked, key=lambda each: -each[1]):
            getattr(self, what)(hops)

    def _step(self) -> None:
        """One hop further."""
        indptr, columns, values = self._entries
        nodes, made = self._nodes[len(indptr) - 1 :], self._view.device_graph.of_edges.made
        counts, sums = self._kept.count(nodes)
        further = self._kept.fill(nodes, counts)
        if self._view.neighbors is not None:
            further = further.bounded(nodes, self._view.neighbors)
        # One entry for each node, all -1. It is taken away until it is so again: a step may be broken off, and another
        # thread has one of its own.
        place = made.pop("place", None)
        place = np.full(self._view.device_graph.graph.num_nodes, -1, np.int32) if place is None else place
        place[self._nodes] = np.arange(len(self._nodes))
        reached = np.concatenate([self._nodes, np.empty(len(further.columns), np.int64)])
        count = numba_kernels().number_columns(further.columns, place, reached, len(self._nodes))
        self._nodes = reached[:count]
        place[self._nodes] = -1
        made["place"] = place
        self._sizes.append(count)
        self._sums = np.concatenate([self._sums, sums])
        self._entries = CSRArrays(
            np.concatenate([indptr, indptr[-1] + further.indptr[1:]]),
            np.concatenate([columns, further.columns]),
            np.concatenate([values, further.values]),
        )
        self._matrix = None

"""Sampled steps whose nodes a CPU finds: the rows of some, computed from those that their edges reach and from no others."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.base import Operators
from clnr.engine.cpu.cpu_engine import CSRArrays, DropRule, numba_kernels
from clnr.engine.files.mapped import MappedEdges, MappedFeatures, StoredRule
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.torch_sparse import BlockEngine, Features, Matrix, MatrixOperators
from clnr.engine.view import View
from clnr.graph.csr import Array

# To add one number of a row that an edge points to takes about as long as so many steps of a dense product.
_GATHER = 8


class Frontier:
    """The nodes within some hops of the wanted ones, against the direction of the edges that a view keeps and takes.

    Nodes are in the order of their distance, so that those within fewer hops, and their rows of the matrix, come first.
    A node's degree is that in the whole view: it follows from the node's own edges.

    Args:
        view: The view.
        wanted: Distinct nodes.
        asked: Where it notes what it was asked for.
    """

    def __init__(self, view: View, wanted: Array, asked: set[tuple[str, int]] | None = None):
        self.asked: set[tuple[str, int]] = set() if asked is None else asked
        self._features: dict[int, Tensor | sp.csr_array] = {}
        self._view, self._rule = view, StoredRule(view) if isinstance(view.propagation, MappedEdges) else DropRule(view)
        self._nodes, self._sizes = wanted, [len(wanted)]
        self._counts, self._sums = np.empty(0, np.int64), np.empty(0, np.float32)
        self._entries = CSRArrays(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        self._matrix: CSRArrays | None = None

    def nodes(self, hops: int) -> Array:
        """The nodes within so many hops."""
        self.asked.add(("nodes", hops))
        while len(self._sizes) <= hops:
            self._step()
        return self._nodes[: self._sizes[hops]]

    def matrix(self, hops: int) -> CSRArrays:
        """What propagates from the nodes within so many hops to those within one hop fewer."""
        self.asked.add(("matrix", hops))
        self.nodes(hops)
        if self._matrix is None:
            if self._view.propagation_matrix is None:
                further = self._rule.sums(self._nodes[len(self._sums) :])
                self._matrix = self._entries.scaled(np.concatenate([self._sums, further]))
            else:
                self._matrix = self._entries
        rows = self._sizes[hops - 1]
        indptr = self._matrix.indptr[: rows + 1]
        return CSRArrays(indptr, self._matrix.columns[: indptr[-1]], self._matrix.values[: indptr[-1]])

    def features(self, hops: int) -> Tensor | sp.csr_array:
        """The features of the nodes within so many hops, of a graph in files."""
        self.asked.add(("features", hops))
        nodes = self.nodes(hops)
        if hops not in self._features:
            further = [self._features[each] for each in self._features if each > hops]
            x = cast(MappedFeatures, self._view.device_graph.features)
            self._features[hops] = further[0][: len(nodes)] if further else x.rows(nodes)
        return self._features[hops]

    def read(self, asked: Collection[tuple[str, int]]) -> None:
        """Find and read what will be asked for, as another frontier was."""
        for what, hops in sorted(asked, key=lambda each: -each[1]):
            getattr(self, what)(hops)

    def _step(self) -> None:
        """One hop further."""
        self._count()
        indptr, columns, values = self._entries
        rows = slice(len(indptr) - 1, None)
        links, neighbors = self._view.propagation, self._view.neighbors
        further = self._rule.fill(self._nodes[rows], self._counts[rows])
        if neighbors is not None:
            further = further.bounded(self._nodes[rows], neighbors)
        # Taken away until it is clean again, in case a step is broken off or another thread has one of its own.
        place = links.made.pop("place", None)
        place = np.full(links.shape[1], -1, np.int32) if place is None else place
        place[self._nodes] = np.arange(len(self._nodes))
        found = np.concatenate([self._nodes, np.empty(len(further.columns), np.int64)])
        count = numba_kernels().number_columns(further.columns, place, found, len(self._nodes))
        self._nodes = found[:count]
        place[self._nodes] = -1
        links.made["place"] = place
        self._sizes.append(count)
        self._entries = CSRArrays(
            np.concatenate([indptr, indptr[-1] + further.indptr[1:]]),
            np.concatenate([columns, further.columns]),
            np.concatenate([values, further.values]),
        )
        self._matrix = None

    def _count(self) -> None:
        """The kept entries and the degree of each node that is there now."""
        counts, sums = self._rule.count(self._nodes[len(self._counts) :])
        self._counts, self._sums = np.concatenate([self._counts, counts]), np.concatenate([self._sums, sums])


class FrontierOperators(MatrixOperators):
    """The maps between the rows of the nodes within ``hops`` of the wanted ones and those within one hop fewer."""

    def __init__(self, view: View, engine: BlockEngine, frontier: Frontier, hops: int = 0):
        super().__init__(view, engine)
        self._blocks, self._frontier, self._hops = engine, frontier, hops

    def within(self, hops: int) -> Operators:
        return FrontierOperators(self.view, self._blocks, self._frontier, hops)

    @property
    def asked(self) -> frozenset[tuple[str, int]]:
        return frozenset(self._frontier.asked)

    def read(self, asked: Collection[tuple[str, int]]) -> None:
        self._frontier.read(asked)

    @cached_property
    def nodes(self) -> Tensor:
        return torch.from_numpy(self._frontier.nodes(self._hops)).to(self._blocks.device)

    @cached_property
    def _block(self) -> CSRArrays:
        return self._frontier.matrix(self._hops)

    @cached_property
    def _adjacency(self) -> Matrix:
        shape = len(self._block.indptr) - 1, len(self.nodes)
        return self._blocks.block_matrix(self._block, shape)

    @cached_property
    def _x(self) -> Tensor | Features:
        view, nodes = self.view, self.nodes
        mask, x = view.mask, view.device_graph.features
        if view.node_permutation is not None:
            nodes = view.node_permutation[nodes]
        if isinstance(x, SparseMatrix):
            return self._sparse_rows(x.once("scipy", lambda: to_scipy(x))[nodes.numpy()], nodes)
        if isinstance(x, MappedFeatures):
            permuted = view.node_permutation is not None
            read = x.rows(nodes.numpy(force=True)) if permuted else self._frontier.features(self._hops)
            if sp.issparse(read):
                return self._sparse_rows(read, nodes)
            rows = self._blocks.dense_features(read.to(self._blocks.device))
        else:
            rows = self._blocks.all_features(view.device_graph, x).index_select(0, nodes)
        if mask is None or not mask.elements:
            return rows
        return rows * mask.of_elements(nodes[:, None], torch.arange(rows.shape[1], device=rows.device)).to(rows.dtype)

    def _sparse_rows(self, rows: sp.csr_array, nodes: Tensor) -> Features:
        mask = self.view.mask
        if mask is not None and mask.elements:
            of_rows = nodes.cpu().repeat_interleave(torch.from_numpy(np.diff(rows.indptr).astype(np.int64)))
            kept = mask.of_elements(of_rows, torch.from_numpy(rows.indices.astype(np.int64))).numpy()
            rows = sp.csr_array((rows.data * kept, rows.indices, rows.indptr), shape=rows.shape)
        return self._blocks.block_features(rows, None if mask is None or mask.elements else mask)

    def _propagates_first(self, weight: Tensor) -> bool:
        inputs, outputs = weight.shape
        fewer = len(self.nodes) - len(self._frontier.nodes(self._hops - 1))
        return _GATHER * len(self._block.columns) * (inputs - outputs) <= fewer * inputs * outputs


def to_scipy(x: SparseMatrix) -> sp.csr_array:
    """A sparse matrix on the host."""
    values, columns, indptr = (each.numpy(force=True) for each in (x.values, x.columns, x.indptr))
    parts = values, columns.astype(np.int32), indptr
    return sp.csr_array(parts, shape=x.shape)

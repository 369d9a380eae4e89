"""Engines that compute rows of nodes which a CPU finds: from memory or from files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.cpu.csr_arrays import CSRArrays, MatrixKeptRows
from clnr.engine.cpu.frontier import Frontier
from clnr.engine.files.mapped import stored_rows
from clnr.engine.files.mapped_graph import MappedGraph, map_folder, measured_nodes
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import Features, Matrix, MatrixOperators, SparseEngine
from clnr.engine.streams import Streams
from clnr.engine.view import DeviceGraph, Mask, View
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import MappedArray

# Steps of a dense product that take about as long as adding one number of a row that an edge points to.
_STEPS_PER_GATHER = 8


class BlockEngine(SparseEngine):
    """A sparse engine that also multiplies by matrices of some nodes, and so computes rows of a graph that stays in files."""

    reads_files = True

    @abstractmethod
    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> Matrix:
        """A matrix from the host, ready to multiply."""

    @abstractmethod
    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        """Sparse features of some nodes from the host; ``mask`` is one of columns."""

    def stored_product(self, matrix: CSRArrays, array: MappedArray) -> Callable[[bool], Tensor]:
        """What multiplies S by rows h of all nodes in a file, or by relu(h) if it is given True; it may read them now."""
        reached, columns = np.unique(matrix.columns, return_inverse=True)
        narrow, rows = matrix._replace(columns=columns.astype(np.int32)), stored_rows(array, reached)
        shape = len(matrix.indptr) - 1, len(reached)
        return lambda relu: self.block_matrix(narrow, shape)(rows.to(self.device), relu)

    def to_device(self, graph: Graph) -> DeviceGraph:
        """Move a graph to the device; one in a folder stays in its files."""
        return map_folder(graph) if isinstance(graph, GraphFolder) else super().to_device(graph)

    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        """The linear maps of a view; of a graph in files those of a fixed sample of nodes, for statistics of all."""
        if view.device_graph.in_files:
            return self.block_operators(view, measured_nodes(view.device_graph.graph.num_nodes))
        return super().operators(view, streams)

    def block_operators(self, view: View, nodes: Tensor) -> Operators:
        """``sampled_operators`` whose nodes a CPU finds."""
        return FrontierOperators(view, self, frontier_of(view, nodes.numpy(force=True)))


def frontier_of(view: View, nodes: Array) -> Frontier:
    """The nodes that some nodes reach in a view, found by a CPU."""
    if isinstance(view.device_graph, MappedGraph):
        return view.device_graph.frontier(view, nodes)
    return Frontier(view, nodes, MatrixKeptRows(view))


class FrontierOperators(MatrixOperators):
    """The maps between the rows of the nodes within ``hops`` of the wanted ones and those within one hop fewer.

    They are computed from the rows of the nodes that edges reach, and from no others.
    """

    _engine: BlockEngine

    def __init__(self, view: View, engine: BlockEngine, frontier: Frontier, hops: int = 0):
        super().__init__(view, engine)
        self._frontier, self._hops = frontier, hops

    def within(self, hops: int) -> Operators:
        return FrontierOperators(self.view, self._engine, self._frontier, hops)

    @cached_property
    def nodes(self) -> Tensor:
        return torch.from_numpy(self._frontier.nodes(self._hops)).to(self._engine.device)

    @cached_property
    def _block(self) -> CSRArrays:
        return self._frontier.matrix(self._hops)

    @cached_property
    def adjacency(self) -> Matrix:
        return self._engine.block_matrix(self._block, (len(self._block.indptr) - 1, len(self.nodes)))

    @cached_property
    def _x(self) -> Tensor | Features:
        nodes, permutation = self.nodes, self.view.node_permutation
        nodes = nodes if permutation is None else permutation[nodes]
        device_graph, x = self.view.device_graph, self.view.device_graph.features
        if isinstance(x, Tensor):
            rows = self._engine.all_features(device_graph, x).index_select(0, nodes)
        else:
            unpermuted = permutation is None
            read = self._frontier.features(self._hops) if unpermuted else device_graph.feature_rows(nodes.numpy(force=True))
            if sp.issparse(read):
                return self._sparse_rows(read, nodes)
            rows = self._engine.dense_features(read.to(self._engine.device))
        return self._without_masked_elements(rows, nodes)

    def _sparse_rows(self, rows: sp.csr_array, nodes: Tensor) -> Features:
        mask = self.view.mask
        if mask is not None and mask.elements:
            of_rows = nodes.cpu().repeat_interleave(torch.from_numpy(np.diff(rows.indptr).astype(np.int64)))
            kept = mask.of_elements(of_rows, torch.from_numpy(rows.indices.astype(np.int64))).numpy()
            rows = sp.csr_array((rows.data * kept, rows.indices, rows.indptr), shape=rows.shape)
        return self._engine.block_features(rows, None if mask is None or mask.elements else mask)

    def _propagates_first(self, weight: Tensor) -> bool:
        inputs, outputs = weight.shape
        fewer = len(self.nodes) - len(self._frontier.nodes(self._hops - 1))
        return _STEPS_PER_GATHER * len(self._block.columns) * (inputs - outputs) <= fewer * inputs * outputs

"""Engines that compute rows of nodes which a CPU finds: from memory or from files, alone or among workers."""

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
from clnr.engine.distributed.shared_rows import SharedRows
from clnr.engine.files.mapped import stored_rows
from clnr.engine.files.mapped_graph import MappedGraph, map_folder, measured_nodes
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import Features, Matrix, MatrixOperators, SparseEngine
from clnr.engine.sparse_matrix import SparseMatrix, to_scipy
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
        # Workers share the rows of a graph as it is, or of another matrix on its nodes: where nothing is drawn.
        if not self.workers.alone and view == View(view.device_graph, propagation_matrix=view.propagation_matrix):
            return SharedOperators(view, self)
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


class _OwnRows(MatrixOperators):
    """This worker's rows of the maps of all nodes; ``propagate`` takes the rows of all."""

    _engine: BlockEngine

    def __init__(self, view: View, engine: BlockEngine, own_rows: slice):
        super().__init__(view, engine)
        self._own_rows = own_rows

    @cached_property
    def _x(self) -> Tensor | Features:
        x, rows = self.view.device_graph.features, self._own_rows
        if isinstance(x, SparseMatrix):
            return x.once(("rows", rows.start, rows.stop), lambda: self._engine.block_features(to_scipy(x)[rows], None))
        return self._engine.all_features(self.view.device_graph, x)[rows]

    @cached_property
    def adjacency(self) -> Matrix:
        links, rows = self.view.propagation, self._own_rows
        asker = "rows", rows.start, rows.stop, self.view.propagation_matrix is None
        shape = rows.stop - rows.start, links.shape[1]
        return links.once(asker, lambda: self._engine.block_matrix(_row_block(self.view, rows), shape))


def _row_block(view: View, rows: slice) -> CSRArrays:
    """Some rows of the matrix that a view propagates by."""
    kept_rows = MatrixKeptRows(view)
    counts, sums = kept_rows.count(kept_rows.all_rows)
    kept = kept_rows.fill(np.arange(rows.start, rows.stop), counts[rows])
    if view.propagation_matrix is None:
        # As rows among all, which have no entries here: a row is scaled by its own sum.
        among = np.concatenate([np.zeros(rows.start, np.int64), kept.indptr, np.full(len(sums) - rows.stop, kept.indptr[-1])])
        kept = kept._replace(values=kept._replace(indptr=among).scaled(sums).values)
    return kept


class SharedOperators(Operators):
    """The maps of all nodes, of whose rows each worker computes its share; of a view in which nothing is drawn."""

    def __init__(self, view: View, engine: BlockEngine):
        super().__init__(view)
        self._engine, self._rows = engine, SharedRows(engine.workers, view.propagation.shape[0])
        self._own = _OwnRows(view, engine, self._rows.own_rows)
        self.dense = engine.dense.by_rows(self._rows)

    @property
    def features(self) -> Tensor:
        x = self.view.device_graph.features
        if isinstance(x, SparseMatrix):
            return self._engine.features(x, None).to_dense()
        return self._engine.all_features(self.view.device_graph, x)[:, : self.view.device_graph.graph.num_features].float()

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is None:
            return self._rows(self._own.project, weight)
        return self._rows(self._own.project, weight, bias)

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        return self._rows(lambda given: self._own.propagate(given, relu), h)

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        engine, own_rows, x = self._engine, self._rows.own_rows, self.view.device_graph.features
        given = engine.all_features(self.view.device_graph, x) if h is None and isinstance(x, Tensor) else h
        if given is not None and weight.shape[0] <= weight.shape[1]:

            def layer(given: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                narrow = engine.weight(weight, first=h is None)
                return engine.dense.linear(self._own.propagate(given, relu and h is not None), narrow, bias)

            return self._rows(layer, given, weight, bias)
        if h is None:
            projected = self.project(weight)
        else:
            projected = self._rows(
                lambda h, weight: (h[own_rows].relu() if relu else h[own_rows]) @ engine.weight(weight), h, weight
            )
        return self._rows(lambda given, bias: self._own.adjacency(given, bias=bias), projected, bias)

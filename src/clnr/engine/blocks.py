"""Graphs of which only the rows of some nodes are computed at a time, in sampled steps and in passes over all nodes.

Their arrays may be in memory or mapped from files; what is read is checked.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.cpu.csr_arrays import CSRArrays, GraphRows, MatrixRows, numba_kernels
from clnr.engine.cpu.frontier import Frontier
from clnr.engine.cpu.threads import share_rows
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import Features, Matrix, MatrixOperators, SparseEngine
from clnr.engine.view import NO_PAIRS, DeviceGraph, Mask, ReadFeatures, View
from clnr.graph import Graph
from clnr.graph.csr import Array, are_among, find_edges

# Steps of a dense product that take about as long as adding one number of a row that an edge points to.
_STEPS_PER_GATHER = 8
_ROWS_PER_COUNT = 1 << 20
_READ_AHEAD_KEY = "read ahead"
# The bits of a float that are all set where it is not finite.
_EXPONENT_BITS = {"float32": 0x7F80_0000, "float16": 0x7C00}

ChangeRows = Callable[[Any, Array], Any]
"""A map of the features of some nodes, as an array or a sparse one, and of the nodes themselves, to other features."""


class BlockEngine(SparseEngine):
    """A sparse engine that also multiplies by matrices of some nodes, and so computes rows of a graph in blocks."""

    @abstractmethod
    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> Matrix:
        """A matrix from the host, ready to multiply."""

    @abstractmethod
    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        """Sparse features of some nodes from the host; ``mask`` is one of columns."""

    def stored_product(self, matrix: CSRArrays, rows: Array) -> Callable[[bool], Tensor]:
        """What multiplies S by rows h of all nodes, or by relu(h) if it is given True; it may read them now."""
        reached, columns = np.unique(matrix.columns, return_inverse=True)
        narrow, read = matrix._replace(columns=columns.astype(np.int32)), torch.from_numpy(gather_rows(rows, reached))
        shape = len(matrix.indptr) - 1, len(reached)
        return lambda relu: self.block_matrix(narrow, shape)(read.to(self.device), relu)

    def block_operators(self, view: View, nodes: Tensor) -> Operators:
        """``sampled_operators`` whose nodes a CPU finds."""
        return FrontierOperators(view, self, frontier_of(view, nodes.numpy(force=True)))

    @contextmanager
    def reading_ahead(self, device_graph: DeviceGraph) -> Iterator[None]:
        if not device_graph.in_blocks:
            yield
            return
        ahead = device_graph.once(_READ_AHEAD_KEY, ReadAhead)
        try:
            yield
        finally:
            del device_graph.made[_READ_AHEAD_KEY]
            ahead.end()

    def read_ahead(self, views: Sequence[View], nodes: Tensor) -> None:
        if (ahead := views[0].device_graph.made.get(_READ_AHEAD_KEY)) is not None:
            ahead.begin(views, nodes)


# -- sampled steps ----------------------------------------------------------------------------------------------------


def frontier_of(view: View, nodes: Array) -> Frontier:
    """The nodes that some nodes reach in a view, found by a CPU, and maybe read ahead."""
    ahead = view.device_graph.made.get(_READ_AHEAD_KEY)
    return _unread(view, nodes, set()) if ahead is None else ahead.frontier(view, nodes)


def _unread(view: View, nodes: Array, asked: set[tuple[str, int]]) -> Frontier:
    """A frontier of some nodes of a view, of which nothing is read yet; it notes what it is asked for."""
    own_rates = view.drop is not None and isinstance(view.drop.rate, Tensor)
    if own_rates or view.propagation_matrix is not None:
        return Frontier(view, nodes, MatrixRows(view), asked)
    return Frontier(view, nodes, GraphRows(view.device_graph, view.drop), asked)


class _ReadStep(NamedTuple):
    view: View
    nodes: Array
    frontier: Future[Frontier]


class ReadAhead:
    """Frontiers of coming steps; each is given once, to whoever asks for the same view of the same nodes.

    A frontier is read as far as those of the steps before were asked. What it holds does not depend on who reads it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="clnr-ahead")
        self._ahead: list[_ReadStep] = []
        self._asked: set[tuple[str, int]] = set()

    def begin(self, views: Sequence[View], nodes: Tensor) -> None:
        """Begin to read what views of a step need for some nodes."""
        wanted, threads = nodes.numpy(force=True), torch.get_num_threads()
        coming = [_ReadStep(view, wanted, self._thread.submit(self._read, view, wanted, threads)) for view in views]
        # Of a step that was never taken, nothing is kept for long.
        self._ahead = self._ahead[-len(views) :] + coming

    def _read(self, view: View, nodes: Array, threads: int) -> Frontier:
        torch.set_num_threads(threads)
        frontier = _unread(view, nodes, self._asked)
        frontier.read(frozenset(self._asked))
        return frontier

    def end(self) -> None:
        """Read no more; waits for what is being read."""
        self._thread.shutdown(cancel_futures=True)

    def frontier(self, view: View, nodes: Array) -> Frontier:
        """What was read ahead for some nodes of a view; else a frontier of which nothing is read yet."""
        for place, (other, wanted, read) in enumerate(self._ahead):
            same_edges = view.drop == other.drop and view.neighbors == other.neighbors
            if same_edges and np.array_equal(wanted, nodes):
                del self._ahead[place]
                return read.result()
        return _unread(view, nodes, self._asked)


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
        device_graph = self.view.device_graph
        x = None if device_graph.in_blocks else device_graph.features
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


# -- graphs and their features ----------------------------------------------------------------------------------------


def in_blocks(graph: Graph, loop_weight: float = 1.0, held_out: Array | None = None) -> DeviceGraph:
    """A graph on the host of which rows of some nodes are computed, without the edges that are held out."""
    read = graph.take_sparse_features if graph.sparse else functools.partial(_dense_features, graph)
    held_out = NO_PAIRS if held_out is None else held_out
    held_out.flags.writeable = False
    return DeviceGraph(graph, torch.device("cpu"), loop_weight, held_out, read=read, read_width=graph.num_features)


def with_features(device_graph: DeviceGraph, change: ChangeRows, width: int) -> DeviceGraph:
    """A graph in blocks whose features are changed as they are read, after any change before, to ``width`` columns."""
    before: Any = device_graph.read
    changed: ReadFeatures = lambda nodes: change(before(nodes), nodes)  # noqa: E731
    return replace(device_graph, read=changed, read_width=width, made={})


def _dense_features(graph: Graph, nodes: Array) -> Array:
    return gather_rows(graph.features, nodes, graph).astype(np.float32, copy=False)


def gather_rows(rows: Array, nodes: Array, checked: Graph | None = None) -> Array:
    """Some rows of an array that may be in a file, read in the order of the file; in memory nothing is.

    Rows of ``checked`` graph's features must be finite.
    """
    # Numbers are sorted many times faster than their places are.
    packed = nodes.astype(np.int64) << 32 | np.arange(len(nodes))
    packed.sort()
    ordered, places = packed >> 32, packed & 0xFFFFFFFF
    out, wrong = np.empty((len(nodes), rows.shape[1]), rows.dtype), np.zeros(len(nodes), np.bool_)
    bits = np.dtype(f"u{out.dtype.itemsize}")
    exponent = bits.type(0 if checked is None else _EXPONENT_BITS[out.dtype.name])
    given = rows.view(bits), ordered, places, out.view(bits), exponent, wrong
    share_rows(np.arange(len(nodes) + 1), numba_kernels().copy_rows, *given, width=out.shape[1])
    if wrong.any():
        assert checked is not None
        raise checked.damaged("features.values", f"row {ordered[np.argmax(wrong)]} has a number that is not finite")
    return out


# -- passes over all nodes --------------------------------------------------------------------------------------------


def degrees(device_graph: DeviceGraph) -> Array:
    """The degree of each node: all edges are read once, and 4 bytes a node are kept.

    Who propagates to all nodes, block after block, then need not read the edges of all their neighbours each time.
    """

    def make() -> Array:
        sums, rows = np.empty(device_graph.graph.num_nodes, np.float32), GraphRows(device_graph)
        for first in range(0, len(sums), _ROWS_PER_COUNT):
            part = np.arange(first, min(first + _ROWS_PER_COUNT, len(sums)))
            sums[part] = rows.count(part)[1]
        return sums

    return device_graph.of_edges.once("degrees", make)


def propagation_rows(device_graph: DeviceGraph, nodes: Array) -> CSRArrays:
    """What propagates rows of all nodes to some of them."""
    kept = GraphRows(device_graph)
    of_all = degrees(device_graph)
    counts, sums = kept.count(nodes)
    rows = kept.fill(nodes, counts)
    of_row, of_column = 1 / np.sqrt(sums), 1 / np.sqrt(of_all[rows.columns])
    return rows._replace(values=np.repeat(of_row, counts) * rows.values * of_column)


def averaging_rows(device_graph: DeviceGraph, nodes: Array) -> CSRArrays:
    """What averages rows of all nodes over the neighbours of some nodes, sorted, along edges of either direction.

    Of two directions the larger weight counts; self-loops and edges that are held out do not.
    """
    graph = device_graph.graph
    ways = [_stored_rows(graph, way, nodes) for way in graph.edges_by_end]
    rows = ways[0].maximum(ways[1]) if len(ways) > 1 else ways[0]
    kept = np.repeat(nodes, np.diff(rows.indptr)) != rows.indices
    row, column = np.divmod(device_graph.held_out, graph.num_nodes)
    here = are_among(row, nodes)
    places = find_edges(rows.indptr, rows.indices, np.searchsorted(nodes, row[here]), column[here])
    kept[places[places >= 0]] = False
    indptr, columns, weights = np.concatenate([[0], np.cumsum(kept)])[rows.indptr], rows.indices[kept], rows.data[kept]
    counts = np.diff(indptr)
    degree = np.bincount(np.repeat(np.arange(len(counts)), counts), weights, minlength=len(counts))
    share = np.where(degree > 0, np.maximum(degree, 1e-30) ** -1.0, 0).astype(np.float32)
    values = (np.repeat(share, counts) * weights).astype(np.float32)
    return CSRArrays(indptr, columns.astype(np.int32), values)


def _stored_rows(graph: Graph, way: Any, nodes: Array) -> sp.csr_array:
    """Edges of some nodes, in one direction."""
    indptr, columns, values = graph.take_edges(nodes, way)
    values = np.ones(len(columns), np.float32) if values is None else values
    return sp.csr_array((values, columns, indptr), shape=(len(nodes), graph.num_nodes))

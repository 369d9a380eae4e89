"""A graph in files: what a sampled step asks of it, some of it read ahead, and what passes over all nodes ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.cpu.frontier import Frontier
from clnr.engine.files.mapped import ChangeRows, MappedEdges, MappedFeatures, StoredKeptRows, bound_memory, row_parts
from clnr.engine.view import DeviceGraph, View
from clnr.graph.csr import Array, are_among, draw_neighbours, edge_keys
from clnr.graph.graph_folder import GraphFolder

_MEASURED_NODES = 1 << 14
_NODES_PER_DRAW = 1 << 11
_READ_AHEAD_KEY = "read ahead"


def unread_frontier(view: View, nodes: Array, asked: set[tuple[str, int]] | None = None) -> Frontier:
    """A frontier of some nodes of a view, of which nothing is read yet; it notes what it is asked for."""
    return Frontier(view, nodes, StoredKeptRows(mapped_edges(view.device_graph), view.drop), asked)


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
        frontier = unread_frontier(view, nodes, self._asked)
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
        return unread_frontier(view, nodes, self._asked)


@dataclass(frozen=True, eq=False)
class MappedGraph(DeviceGraph):
    """A graph in files: ``edges`` are ``MappedEdges``, and ``features`` are ``MappedFeatures``."""

    mapped: MappedFeatures = field(kw_only=True)

    in_files: ClassVar[bool] = True

    def _move_features(self) -> Any:
        return self.mapped

    def frontier(self, view: View, nodes: Array) -> Frontier:
        """The nodes that some nodes reach in a view, found by a CPU, and maybe read ahead."""
        ahead = self.made.get(_READ_AHEAD_KEY)
        return unread_frontier(view, nodes) if ahead is None else ahead.frontier(view, nodes)

    def feature_rows(self, nodes: Array) -> Tensor | sp.csr_array:
        return mapped_features(self).rows(nodes)

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        ahead = self.once(_READ_AHEAD_KEY, ReadAhead)
        try:
            yield
        finally:
            del self.made[_READ_AHEAD_KEY]
            ahead.end()

    def read_ahead(self, views: Sequence[View], nodes: Tensor) -> None:
        if (ahead := self.made.get(_READ_AHEAD_KEY)) is not None:
            ahead.begin(views, nodes)


def mapped_edges(device_graph: DeviceGraph) -> MappedEdges:
    return cast(MappedEdges, device_graph.edges)


def mapped_features(device_graph: DeviceGraph) -> MappedFeatures:
    return cast(MappedGraph, device_graph).mapped


def map_folder(folder: GraphFolder) -> MappedGraph:
    """A graph folder as a graph on the CPU, of which nothing is read yet."""
    edges = MappedEdges(folder, folder.rows("incoming"))
    features = MappedFeatures(folder, folder.rows("features") if folder.sparse else folder.map("features.values"))
    # A model that is trained on it asks for its sizes, and through the engine for rows: see ``Model.whole_graph_reason``.
    return MappedGraph(cast(Any, folder), cast(Any, edges), mapped=features)


def keep_degrees(device_graph: DeviceGraph) -> None:
    """Read all edges once, unless that was done, and keep the degree of each node: 4 bytes a node.

    Who propagates to all nodes, block after block, then need not read the edges of all their neighbours each time.
    """
    edges = mapped_edges(device_graph)
    if "degrees" in edges.made:
        return
    degrees, rule = np.empty(edges.shape[0], np.float32), StoredKeptRows(edges)
    for part in row_parts(len(degrees)):
        degrees[part] = rule.count(np.arange(part.start, part.stop))[1]
    edges.made["degrees"] = degrees


def with_features(device_graph: DeviceGraph, change: ChangeRows, width: int) -> DeviceGraph:
    """A graph in files whose features are changed as they are read, after any change before, to ``width`` columns."""
    features = mapped_features(device_graph)
    before = features.change
    both = change if before is None else lambda x, nodes: change(before(x, nodes), nodes)
    features = replace(features, change=both, width=width)
    graph = replace(cast(GraphFolder, device_graph.graph), num_features=width)
    return replace(cast(MappedGraph, device_graph), graph=cast(Any, graph), mapped=features, made={})


def propagation_rows(device_graph: DeviceGraph, nodes: Array) -> CSRArrays:
    """What propagates rows of all nodes to some of them."""
    keep_degrees(device_graph)
    edges = mapped_edges(device_graph)
    kept = StoredKeptRows(edges)
    counts, sums = kept.count(nodes)
    rows = kept.fill(nodes, counts)
    of_row, of_column = 1 / np.sqrt(sums), 1 / np.sqrt(edges.made["degrees"][rows.columns])
    return rows._replace(values=np.repeat(of_row, counts) * rows.values * of_column)


class NeighbourRows:
    """Averages over the neighbours of some nodes of a folder, along edges of either direction: read once, for several graphs.

    These differ in the edges that they hold out. Of two directions the larger weight counts; self-loops do not.
    """

    def __init__(self, device_graph: DeviceGraph, nodes: Array):
        edges = mapped_edges(device_graph)
        self._nodes, self._count = nodes, edges.shape[0]
        ways = [_other_rows(edges, way, nodes) for way in ("incoming", "outgoing")[: 1 + edges.folder.directed]]
        self._rows = ways[0].maximum(ways[1]) if len(ways) > 1 else ways[0]
        self._whole: CSRArrays | None = None

    def average(self, device_graph: DeviceGraph) -> CSRArrays:
        """What averages rows of all nodes, without the edges that a graph holds out."""
        rows = self._rows
        held = self._places(mapped_edges(device_graph).held_out)
        if len(held):
            gone = np.bincount(np.searchsorted(rows.indptr, held, "right"), minlength=len(rows.indptr)).cumsum()
            return _average(rows.indptr - gone, np.delete(rows.indices, held), np.delete(rows.data, held))
        if self._whole is None:
            self._whole = _average(rows.indptr, rows.indices, rows.data)
        return self._whole

    def _places(self, held_out: Array) -> Array:
        """Where edges that are held out are among the rows' entries."""
        if not len(self._nodes):
            return np.empty(0, np.int64)
        first, last = np.searchsorted(held_out, [self._nodes[0] * self._count, (self._nodes[-1] + 1) * self._count])
        rows, columns = np.divmod(held_out[first:last], self._count)
        here, found = are_among(rows, self._nodes), []
        for row, column in zip(np.searchsorted(self._nodes, rows[here]), columns[here], strict=True):
            start, stop = self._rows.indptr[row : row + 2]
            at = start + np.searchsorted(self._rows.indices[start:stop], column)
            found += [at] if at < stop and self._rows.indices[at] == column else []
        return np.array(found, np.int64)


def _average(indptr: Array, columns: Array, weights: Array) -> CSRArrays:
    counts = np.diff(indptr)
    degree = np.bincount(np.repeat(np.arange(len(counts)), counts), weights, minlength=len(counts))
    share = np.where(degree > 0, np.maximum(degree, 1e-30) ** -1.0, 0).astype(np.float32)
    values = (np.repeat(share, counts) * weights).astype(np.float32)
    return CSRArrays(indptr.astype(np.int64), columns.astype(np.int32), values)


def _other_rows(edges: MappedEdges, way: str, nodes: Array) -> sp.csr_array:
    """Edges of some nodes to others, in one direction."""
    stored = edges.folder.rows(way)
    whole = len(nodes) and nodes[-1] - nodes[0] == len(nodes) - 1
    indptr, columns, values = stored.span(int(nodes[0]), int(nodes[-1]) + 1) if whole else stored.gather(nodes)
    values = np.ones(len(columns), np.float32) if values is None else values
    loops = np.flatnonzero(np.repeat(nodes, np.diff(indptr)) == columns)
    if len(loops):
        rows = np.searchsorted(indptr, loops, "right") - 1
        indptr = indptr - np.bincount(rows + 1, minlength=len(indptr)).cumsum()
        columns, values = np.delete(columns, loops), np.delete(values, loops)
    return sp.csr_array((values, columns, indptr), shape=(len(nodes), edges.shape[0]))


def draw_stored_neighbours(device_graph: DeviceGraph, nodes: Array, most: int) -> tuple[Array, Array]:
    """``draw_neighbours`` of a graph in files, in either direction; those along edges that are held out are left out."""
    edges = mapped_edges(device_graph)
    names = ("incoming", "outgoing")[: 1 + edges.folder.directed]
    ways = [edges.folder.rows(name) for name in names]
    drawn = [np.empty((2, 0), np.int64)]
    for first in range(0, len(nodes), _NODES_PER_DRAW):
        arrays = [(way.indptr.values, way.indices.values) for way in ways]
        some = nodes[first : first + _NODES_PER_DRAW]
        try:
            place, neighbour = draw_neighbours(arrays, some, most, edges.held_out)
        except IndexError as error:
            for way in ways:
                way.gather(some)  # Names the row.
            raise ways[-1].indices.damaged(str(error)) from None
        drawn.append(np.stack([first + place, neighbour]))
        bound_memory(*(array for way in ways for array in way.arrays))
    place, neighbour = np.concatenate(drawn, axis=1)
    return place, neighbour


def without_pairs(device_graph: DeviceGraph, pairs: Array) -> DeviceGraph:
    """A graph in files without the edges between some pairs of nodes, [2, n], in either direction."""
    edges = mapped_edges(device_graph)
    keys = edge_keys(pairs, edges.shape[0])
    return replace(device_graph, edges=cast(Any, replace(edges, held_out=keys, made={})), made={})


def measured_nodes(count: int) -> torch.Tensor:
    """The nodes that stand for all where statistics of all are asked for, as batch normalisation does after training."""
    return rng.permute(rng.key(0, "measured"), torch.arange(min(count, _MEASURED_NODES)), count)

"""A graph in files, of which a sampled step on a CPU reads only the rows that it touches."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.engine.cpu.cpu_engine import CSRArrays, allocated, drop_rule, numba_kernels
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.view import DeviceGraph, View
from clnr.errors import MethodError
from clnr.graph.csr import Array, draw_neighbours
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import MappedArray
from clnr.graph.stored_rows import StoredRows

# So many rows are read at a time; then pages of files beyond the bound are given back. Where the system does not tell how many
# there are, all of them.
_ROWS = 1 << 15
_MEASURED = 1 << 14
_DRAWN = 1 << 11
# The bits of a float that are all set where it is not finite.
_EXPONENT = {"float32": 0x7F80_0000, "float16": 0x7C00, "bfloat16": 0x7F80}

ChangeRows = Callable[[Any, "Array"], Any]
"""A map of the features of some nodes, as an array or a sparse one, and of the nodes themselves, to other features."""


@dataclass(frozen=True, eq=False)
class MappedEdges:
    """``A + w I`` by target, as ``DeviceGraph.edges``; its self-loops are added to the rows that are read.

    ``made`` holds one number of 4 bytes per node between steps, where ``Frontier`` numbers the nodes that it meets. Edges of
    ``held_out`` are left out: target times the number of nodes plus source, sorted.
    """

    folder: GraphFolder
    stored: StoredRows
    made: dict[str, Any] = field(default_factory=dict, repr=False)
    held_out: Array = field(default_factory=lambda: np.empty(0, np.int64), repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.folder.num_nodes, self.folder.num_nodes

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        indptr, columns, values = (*(each.values for each in self.stored.arrays), np.empty(0, np.float32))[:3]
        return indptr, columns, values

    def bound_memory(self) -> None:
        _bound(*self.stored.arrays)


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """Features in files, dense or sparse, as ``DeviceGraph.features``; rows are read as float32.

    What is read passes through ``change``, if there is one: then nodes have ``width`` other features.
    """

    folder: GraphFolder
    stored: MappedArray | StoredRows
    change: ChangeRows | None = None
    width: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.folder.num_nodes, self.folder.num_features if self.change is None else self.width

    def rows(self, nodes: Array) -> torch.Tensor | sp.csr_array:
        """The features of some nodes; dense ones in the type that is stored, or float32 if they are changed."""
        if self.change is None:
            return self._stored(nodes)
        stored = self._stored(nodes)
        changed = self.change(stored.float().numpy() if isinstance(stored, torch.Tensor) else stored, nodes)
        return changed if sp.issparse(changed) else torch.from_numpy(changed)

    def dense(self, nodes: Array) -> torch.Tensor:
        """The features of some nodes, as dense float32."""
        rows = self.rows(nodes)
        return rows.float() if isinstance(rows, torch.Tensor) else torch.from_numpy(rows.toarray())

    def _stored(self, nodes: Array) -> torch.Tensor | sp.csr_array:
        if isinstance(self.stored, MappedArray):
            return read_rows(self.stored, nodes)
        order = np.argsort(nodes, kind="stable")
        read = []
        for part in (order[part] for part in _parts(len(order))):
            indptr, columns, values = self.stored.gather(nodes[part])
            read.append(sp.csr_array((values, columns, indptr), shape=(len(part), self.folder.num_features)))
            _bound(*self.stored.arrays)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return sp.vstack(read, format="csr")[back] if read else sp.csr_array((0, self.folder.num_features), dtype=np.float32)


def read_rows(array: MappedArray, nodes: Array) -> torch.Tensor:
    """Some rows of an array in a file, all of whose numbers must be finite; read in the order of the file."""
    nodes, places = in_order(nodes)
    out = np.empty((len(nodes), array.values.shape[1]), array.values.dtype)
    wrong = copy_rows(array, nodes, places, out, _EXPONENT[array.dtype])
    if wrong.any():
        raise array.damaged(f"row {nodes[np.argmax(wrong)]} has a number that is not finite")
    return torch.from_numpy(out.view(np.dtype(f"i{out.dtype.itemsize}"))).view(getattr(torch, array.dtype))


def in_order(nodes: Array) -> tuple[Array, Array]:
    """Nodes in their order, and the place that each of them had."""
    # Numbers are sorted many times faster than their places are.
    packed = nodes.astype(np.int64) << 32 | np.arange(len(nodes))
    packed.sort()
    return packed >> 32, packed & 0xFFFFFFFF


def copy_rows(array: MappedArray, rows: Array, places: Array, out: Array, exponent: int = 0) -> Array:
    """Copy some rows of an array in a file, given in their order, to places of another array of the same type.

    Returns which of them have a number all of whose bits of the ``exponent`` are set: one that is not finite.
    """
    kernels, bits = numba_kernels(), np.dtype(f"u{out.dtype.itemsize}")
    target, wrong = out.view(bits), np.zeros(len(rows), np.bool_)
    for part in _parts(len(rows)):
        load = np.arange(part.stop - part.start + 1)
        given = array.values.view(bits), rows[part], places[part], target, bits.type(exponent), wrong[part]
        kernels.shared(load, kernels.copy_rows, *given, width=out.shape[1])
        _bound(array)
    return wrong


def map_folder(folder: GraphFolder) -> DeviceGraph:
    """A graph folder as a graph on the CPU, of which nothing is read yet."""
    edges = MappedEdges(folder, folder.rows("incoming"))
    features = MappedFeatures(folder, folder.rows("features") if folder.sparse else folder.map("features.values"))
    # A model that is trained on it asks for its sizes, and through the engine for rows: see ``Model.whole_graph_part``.
    return DeviceGraph(cast(Any, folder), cast(SparseMatrix, edges), cast(Any, features))


def keep_degrees(device_graph: DeviceGraph) -> None:
    """Read all edges once, unless that was done, and keep the degree of each node: 4 bytes a node.

    Who propagates to all nodes, block after block, then need not read the edges of all their neighbours each time.
    """
    edges, rule = cast(MappedEdges, device_graph.edges), StoredRule(View(device_graph))
    if "degrees" in edges.made:
        return
    degrees = np.empty(edges.shape[0], np.float32)
    for part in _parts(len(degrees)):
        degrees[part] = rule.count(np.arange(part.start, part.stop))[1]
    edges.made["degrees"] = degrees


def with_features(device_graph: DeviceGraph, change: ChangeRows, width: int) -> DeviceGraph:
    """A graph in files whose features are changed as they are read, to so many."""
    features = replace(cast(MappedFeatures, device_graph.features), change=change, width=width)
    graph = replace(cast(GraphFolder, device_graph.graph), num_features=width)
    return replace(device_graph, graph=cast(Any, graph), features=cast(Any, features), made={})


def neighbour_rows(device_graph: DeviceGraph, start: int, stop: int) -> sp.csr_array:
    """The weights of edges between a range of nodes and all others, in either direction: the larger one of two.

    No self-loops, and no edges that are held out.
    """
    edges = cast(MappedEdges, device_graph.edges)
    found = [_row_range(edges, way, start, stop) for way in ("incoming", "outgoing")[: 1 + edges.folder.directed]]
    return found[0].maximum(found[1]) if len(found) > 1 else found[0]


def _row_range(edges: MappedEdges, way: str, start: int, stop: int) -> sp.csr_array:
    count = edges.shape[0]
    indptr, columns, values = edges.folder.rows(way).span(start, stop)
    columns = columns.astype(np.int64)
    rows = np.repeat(np.arange(start, stop), np.diff(indptr))
    values = np.ones(len(columns), np.float32) if values is None else values
    # Both directions of a pair are held out.
    kept = (rows != columns) & ~np.isin(rows * count + columns, edges.held_out)
    counts = np.bincount(rows[kept] - start, minlength=stop - start)
    return sp.csr_array((values[kept], columns[kept], np.append(0, np.cumsum(counts))), shape=(stop - start, count))


def draw_stored_neighbours(device_graph: DeviceGraph, nodes: Array, most: int) -> tuple[Array, Array]:
    """``draw_neighbours`` of a graph in files, in either direction; those along edges that are held out are left out."""
    edges = cast(MappedEdges, device_graph.edges)
    names = ("incoming", "outgoing")[: 1 + edges.folder.directed]
    ways = [edges.folder.rows(name) for name in names]
    found = [np.empty((2, 0), np.int64)]
    for first in range(0, len(nodes), _DRAWN):
        arrays = [(way.indptr.values, way.indices.values) for way in ways]
        some = nodes[first : first + _DRAWN]
        try:
            place, neighbour = draw_neighbours(arrays, some, most, edges.held_out)
        except IndexError as error:
            for way in ways:
                way.gather(some)  # Names the row.
            raise ways[-1].indices.damaged(str(error)) from None
        found.append(np.stack([first + place, neighbour]))
        _bound(*(array for way in ways for array in way.arrays))
    place, neighbour = np.concatenate(found, axis=1)
    return place, neighbour


def without_pairs(device_graph: DeviceGraph, pairs: Array) -> DeviceGraph:
    """A graph in files without the edges between some pairs of nodes, [2, n], in either direction."""
    edges = cast(MappedEdges, device_graph.edges)
    count = edges.shape[0]
    keys = np.unique(np.concatenate([pairs[0] * count + pairs[1], pairs[1] * count + pairs[0]]))
    return replace(device_graph, edges=cast(SparseMatrix, replace(edges, held_out=keys, made={})), made={})


def measured_nodes(count: int) -> torch.Tensor:
    """The nodes that stand for all where statistics of all are asked for, as batch normalisation does after training."""
    return rng.permute(rng.key(0, "measured"), torch.arange(min(count, _MEASURED)), count)


class StoredRule:
    """Which edges in files a view keeps: ``DropRule`` for ``MappedEdges``."""

    def __init__(self, view: View):
        self._edges = cast(MappedEdges, view.propagation)
        if view.drop is not None and isinstance(view.drop.rate, torch.Tensor):
            raise MethodError("edges that each have a rate of their own cannot be dropped from a graph in files")
        self._keeps_all = view.drop is None
        self._rule = (*drop_rule(view.drop), self._edges.held_out, np.float32(self._edges.folder.loop_weight))

    def count(self, rows: Array) -> tuple[Array, Array]:
        """How many edges into each of these nodes are kept, and the sum of their weights."""
        counts, sums, wrong = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32), np.zeros(len(rows), np.bool_)
        for part in _parts(len(rows)):
            self._call("count_stored", rows[part], counts[part], sums[part], wrong[part])
        if wrong.any():
            self._edges.stored.gather(rows[wrong][:1])  # Names the row.
            row = rows[np.argmax(wrong)]
            raise self._edges.stored.arrays[-1].damaged(f"the weights of row {row} add up to more than float32 holds")
        return counts, sums

    def sums(self, rows: Array) -> Array:
        """The sum of the weights of the kept edges into each of these nodes."""
        known = self._edges.made.get("degrees") if self._keeps_all else None
        return self.count(rows)[1] if known is None else known[rows]

    def fill(self, rows: Array, counts: Array) -> CSRArrays:
        """The kept edges into these nodes, so many of each."""
        kept = allocated(counts)
        for part in _parts(len(rows)):
            self._call("fill_stored", rows[part], kept.indptr[part], kept.columns, kept.values)
        return kept

    def _call(self, kernel: str, rows: Array, *more: Array) -> None:
        starts, ends = self._edges.stored.bounds(rows)
        kernels, arguments = numba_kernels(), (*self._edges.arrays, self._rule, rows, *more)
        kernels.shared(np.concatenate([[0], np.cumsum(ends - starts)]), getattr(kernels, kernel), *arguments)
        self._edges.bound_memory()


def _parts(count: int) -> list[slice]:
    return [slice(first, min(first + _ROWS, count)) for first in range(0, count, _ROWS)]


def _bound(*arrays: MappedArray) -> None:
    """Give the pages of files back if those of the process exceed their bound."""
    most = arrays[0].resident
    try:
        shared = int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        shared = most + 1
    if shared > most:
        for each in arrays:
            each.release()

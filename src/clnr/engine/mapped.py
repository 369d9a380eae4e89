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
from clnr.engine.cpu import CSRArrays, allocated, drop_rule, numba_kernels
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.view import DeviceGraph, View
from clnr.errors import DataError, MethodError
from clnr.graph.csr import Array, draw_neighbours
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import MappedArray, array_file, to_float32

# So many rows are read at a time; then pages of files beyond the bound are given back. Where the system does not tell how many
# there are, all of them.
_ROWS = 1 << 15
_MEASURED = 1 << 14
_DRAWN = 1 << 11

ChangeRows = Callable[[Any, "Array"], Any]
"""A map of the features of some nodes, as an array or a sparse one, and of the nodes themselves, to other features."""


@dataclass(frozen=True, eq=False)
class MappedEdges:
    """``A + w I`` by target, as ``DeviceGraph.edges``; its self-loops are added to the rows that are read.

    ``made`` holds one number of 4 bytes per node between steps, where ``Frontier`` numbers the nodes that it meets. Edges of
    ``held_out`` are left out: target times the number of nodes plus source, sorted.
    """

    folder: GraphFolder
    indptr: MappedArray
    columns: MappedArray
    values: MappedArray | None
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
        values = np.empty(0, np.float32) if self.values is None else self.values.values
        return self.indptr.values, self.columns.values, values

    def bound_memory(self) -> None:
        _bound(self.indptr, self.columns, *([] if self.values is None else [self.values]))


@dataclass(frozen=True, eq=False)
class MappedFeatures:
    """Features in files, dense or sparse, as ``DeviceGraph.features``; rows are read as float32.

    What is read passes through ``change``, if there is one: then nodes have ``width`` other features.
    """

    folder: GraphFolder
    values: MappedArray
    indptr: MappedArray | None
    columns: MappedArray | None
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
        if self.indptr is None or self.columns is None:
            return read_rows(self.values, nodes)
        order = np.argsort(nodes, kind="stable")
        read = []
        for part in (order[part] for part in _parts(len(order))):
            starts, ends = self.indptr.values[nodes[part]], self.indptr.values[nodes[part] + 1]
            indptr = np.concatenate([[0], np.cumsum(ends - starts)])
            entries = np.repeat(starts - indptr[:-1], ends - starts) + np.arange(indptr[-1])
            columns, values = self.columns.values[entries], to_float32(self.values.values[entries], self.values.dtype)
            if len(columns) and not 0 <= columns.min() <= columns.max() < self.folder.num_features:
                raise _damaged(self.folder, "features.indices")
            read.append(sp.csr_array((values, columns, indptr), shape=(len(part), self.folder.num_features)))
            _bound(self.indptr, self.columns, self.values)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return sp.vstack(read, format="csr")[back] if read else sp.csr_array((0, self.folder.num_features), dtype=np.float32)


def read_rows(array: MappedArray, nodes: Array) -> torch.Tensor:
    """Some rows of an array in a file; read in the order of the file."""
    nodes, places = in_order(nodes)
    out = np.empty((len(nodes), array.values.shape[1]), array.values.dtype)
    copy_rows(array, nodes, places, out)
    return torch.from_numpy(out.view(np.dtype(f"i{out.dtype.itemsize}"))).view(getattr(torch, array.dtype))


def in_order(nodes: Array) -> tuple[Array, Array]:
    """Nodes in their order, and the place that each of them had."""
    # Numbers are sorted many times faster than their places are.
    packed = nodes.astype(np.int64) << 32 | np.arange(len(nodes))
    packed.sort()
    return packed >> 32, packed & 0xFFFFFFFF


def copy_rows(array: MappedArray, rows: Array, places: Array, out: Array) -> None:
    """Copy some rows of an array in a file, given in their order, to places of another array of the same type."""
    kernels, bits = numba_kernels(), np.dtype(f"u{out.dtype.itemsize}")
    source, target = array.values.view(bits), out.view(bits)
    for part in _parts(len(rows)):
        load = np.arange(part.stop - part.start + 1)
        kernels.shared(load, kernels.copy_rows, source, rows[part], places[part], target, width=out.shape[1])
        _bound(array)


def map_folder(folder: GraphFolder) -> DeviceGraph:
    """A graph folder as a graph on the CPU, of which nothing is read yet."""
    weighted = "incoming.weight" in folder.arrays
    edges = MappedEdges(
        folder,
        folder.map("incoming.indptr"),
        folder.map("incoming.indices"),
        folder.map("incoming.weight") if weighted else None,
    )
    indptr, columns = (folder.map(f"features.{part}") if folder.sparse else None for part in ("indptr", "indices"))
    features = MappedFeatures(folder, folder.map("features.values"), indptr, columns)
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
    folder, count = edges.folder, edges.shape[0]
    indptr = folder.map(f"{way}.indptr").values[start : stop + 1]
    first, last = int(indptr[0]), int(indptr[-1])
    stored = folder.map(f"{way}.indices").values
    if not (0 <= first <= last <= len(stored) and (np.diff(indptr) >= 0).all()):
        raise _damaged(folder, f"{way}.indptr")
    columns = stored[first:last].astype(np.int64)
    if len(columns) and not 0 <= columns.min() <= columns.max() < count:
        raise _damaged(folder, f"{way}.indices")
    rows = np.repeat(np.arange(start, stop), np.diff(indptr))
    weights = edges.values is not None
    values = folder.map(f"{way}.weight").values[first:last] if weights else np.ones(len(columns), np.float32)
    # Both directions of a pair are held out.
    kept = (rows != columns) & ~np.isin(rows * count + columns, edges.held_out)
    counts = np.bincount(rows[kept] - start, minlength=stop - start)
    return sp.csr_array((values[kept], columns[kept], np.append(0, np.cumsum(counts))), shape=(stop - start, count))


def draw_stored_neighbours(device_graph: DeviceGraph, nodes: Array, most: int) -> tuple[Array, Array]:
    """``draw_neighbours`` of a graph in files, in either direction; those along edges that are held out are left out."""
    edges = cast(MappedEdges, device_graph.edges)
    names = ("incoming", "outgoing")[: 1 + edges.folder.directed]
    ways = [[edges.folder.map(f"{way}.{part}") for part in ("indptr", "indices")] for way in names]
    found = [np.empty((2, 0), np.int64)]
    for first in range(0, len(nodes), _DRAWN):
        arrays = [(indptr.values, columns.values) for indptr, columns in ways]
        try:
            place, neighbour = draw_neighbours(arrays, nodes[first : first + _DRAWN], most, edges.held_out)
        except IndexError:
            raise _damaged(edges.folder, f"{names[-1]}.indices") from None
        found.append(np.stack([first + place, neighbour]))
        _bound(*(array for way in ways for array in way))
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
            raise _damaged(self._edges.folder, "incoming.indices")
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
        kernels, indptr = numba_kernels(), self._edges.indptr.values
        starts, ends = indptr[rows], indptr[rows + 1]
        load = ends - starts
        if not (starts.min() >= 0 and load.min() >= 0 and ends.max() <= len(self._edges.columns.values)):
            raise _damaged(self._edges.folder, "incoming.indptr")
        arguments = (*self._edges.arrays, self._rule, rows, *more)
        kernels.shared(np.concatenate([[0], np.cumsum(load)]), getattr(kernels, kernel), *arguments)
        self._edges.bound_memory()


def _parts(count: int) -> list[slice]:
    return [slice(first, min(first + _ROWS, count)) for first in range(0, count, _ROWS)]


def _damaged(folder: GraphFolder, name: str) -> DataError:
    return DataError(f"{folder.path / array_file(name)}: it is damaged, or was changed: it points outside of the graph")


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

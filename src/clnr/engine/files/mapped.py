"""Edges and features in files, of which a sampled step on a CPU reads only the rows that it touches."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr.engine.cpu.csr_arrays import CSRArrays, KeptRows, allocated, drop_rule, numba_kernels
from clnr.engine.cpu.threads import share_rows
from clnr.engine.products import empty_rows
from clnr.engine.view import Drop
from clnr.errors import MethodError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.stored_arrays import MappedArray, StoredRows

# Rows between two times that pages of files beyond the bound are given back (all pages, if the system does not count them).
# A row that is read maps 64 KiB around it, so these are up to half a gigabyte.
_ROWS_PER_READ = 1 << 13
# Rows that are multiplied where they are: between cuts, pages are given back. Sums do not depend on what memory there is.
_CUT_BYTES = 1 << 28
# The bits of a float that are all set where it is not finite.
_EXPONENT_BITS = {"float32": 0x7F80_0000, "float16": 0x7C00}

ChangeRows = Callable[[Any, Array], Any]
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
        bound_memory(*self.stored.arrays)


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
        stored = self._stored(nodes)
        if self.change is None:
            return stored
        changed = self.change(_float32(stored), nodes)
        return changed if sp.issparse(changed) else torch.from_numpy(changed)

    def on_host(self, nodes: Array) -> Any:
        """The features of some nodes in float32, as an array or sparse."""
        return _float32(self.rows(nodes))

    def dense(self, nodes: Array) -> torch.Tensor:
        """The features of some nodes, as dense float32."""
        rows = self.rows(nodes)
        return rows.float() if isinstance(rows, torch.Tensor) else torch.from_numpy(rows.toarray())

    def _stored(self, nodes: Array) -> torch.Tensor | sp.csr_array:
        if isinstance(self.stored, MappedArray):
            return read_rows(self.stored, nodes)
        width, (ordered, places) = self.folder.num_features, in_order(nodes)
        read = [sp.csr_array((0, width), dtype=np.float32)]
        for part in row_parts(len(nodes)):
            indptr, columns, values = self.stored.gather(ordered[part])
            read.append(sp.csr_array((values, columns, indptr), shape=(len(indptr) - 1, width)))
            bound_memory(*self.stored.arrays)
        return sp.vstack(read, format="csr")[np.argsort(places)]


def _float32(rows: torch.Tensor | sp.csr_array) -> Any:
    return rows.float().numpy() if isinstance(rows, torch.Tensor) else rows


def read_rows(array: MappedArray, nodes: Array) -> torch.Tensor:
    """Some rows of an array in a file, all of whose numbers must be finite; read in the order of the file."""
    nodes, places = in_order(nodes)
    out = np.empty((len(nodes), array.values.shape[1]), array.values.dtype)
    wrong = copy_rows(array, nodes, places, out, _EXPONENT_BITS[out.dtype.name])
    if wrong.any():
        raise array.damaged(f"row {nodes[np.argmax(wrong)]} has a number that is not finite")
    return torch.from_numpy(out)


def stored_rows(array: MappedArray, nodes: Array) -> torch.Tensor:
    """Some rows of an array of float32 in a file, which this program has written."""
    if len(nodes) and (np.diff(nodes) == 1).all():
        rows = torch.from_numpy(array.values[nodes[0] : nodes[-1] + 1].copy())
        bound_memory(array)
        return rows
    nodes, places = in_order(nodes)
    out = np.empty((len(nodes), array.mapped.shape[1]), np.float32)
    copy_rows(array, nodes, places, out)
    return torch.from_numpy(out)


def multiply_stored(matrix: CSRArrays, array: MappedArray, relu: bool = False) -> torch.Tensor:
    """S h, or S relu(h), for rows h of float32 in a file, which are read where they are; columns of a row of S are sorted."""
    kernels, (count, width) = numba_kernels(), array.mapped.shape
    out = empty_rows(len(matrix.indptr) - 1, width, torch.device("cpu")).zero_()
    next_entry = matrix.indptr[:-1].copy()
    step = max(1, _CUT_BYTES // (array.mapped.itemsize * max(1, width)))
    for stop in range(step, count + step, step):
        given = matrix.indptr, next_entry, matrix.columns, matrix.values, array.values, stop, relu, out.numpy()
        share_rows(matrix.indptr, kernels.add_stored, *given, width=width)
        bound_memory(array)
    return out


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
    for part in row_parts(len(rows)):
        load = np.arange(part.stop - part.start + 1)
        given = array.values.view(bits), rows[part], places[part], target, bits.type(exponent), wrong[part]
        share_rows(load, kernels.copy_rows, *given, width=out.shape[1])
        bound_memory(array)
    return wrong


class StoredKeptRows(KeptRows):
    """The edges in files into each node, without those that are dropped at a rate."""

    def __init__(self, edges: MappedEdges, drop: Drop | None = None):
        if drop is not None and isinstance(drop.rate, torch.Tensor):
            raise MethodError("edges that each have a rate of their own cannot be dropped from a graph in files")
        self._edges, self._keeps_all = edges, drop is None
        self._rule = (*drop_rule(drop), edges.held_out, np.float32(edges.folder.loop_weight))

    def count(self, rows: Array) -> tuple[Array, Array]:
        counts, sums, wrong = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32), np.zeros(len(rows), np.bool_)
        for part in row_parts(len(rows)):
            self._call("count_stored", rows[part], counts[part], sums[part], wrong[part])
        if wrong.any():
            self._edges.stored.gather(rows[wrong][:1])  # Names the row.
            row = rows[np.argmax(wrong)]
            raise self._edges.stored.arrays[-1].damaged(f"the weights of row {row} add up to more than float32 holds")
        return counts, sums

    def sums(self, rows: Array) -> Array:
        known = self._edges.made.get("degrees") if self._keeps_all else None
        return self.count(rows)[1] if known is None else known[rows]

    def fill(self, rows: Array, counts: Array) -> CSRArrays:
        kept = allocated(counts)
        for part in row_parts(len(rows)):
            self._call("fill_stored", rows[part], kept.indptr[part], kept.columns, kept.values)
        return kept

    def _call(self, kernel: str, rows: Array, *more: Array) -> None:
        starts, ends = self._edges.stored.bounds(rows)
        kernels, arguments = numba_kernels(), (*self._edges.arrays, self._rule, rows, *more)
        share_rows(np.concatenate([[0], np.cumsum(ends - starts)]), getattr(kernels, kernel), *arguments)
        self._edges.bound_memory()


def row_parts(count: int) -> list[slice]:
    """A range of rows split into parts that are read at a time."""
    return [slice(first, min(first + _ROWS_PER_READ, count)) for first in range(0, count, _ROWS_PER_READ)]


def bound_memory(*arrays: MappedArray) -> None:
    """Give the pages of files back if those of the process exceed their bound."""
    most = arrays[0].resident
    try:
        shared = int(Path("/proc/self/statm").read_text().split()[2]) * mmap.PAGESIZE
    except (OSError, ValueError, IndexError):
        shared = most + 1
    if shared > most:
        for each in arrays:
            each.release()

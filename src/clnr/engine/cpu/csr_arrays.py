"""CSR matrices on the host: which entries a view keeps, and the compiled loops over them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.engine.cpu.threads import share_rows
from clnr.engine.products import empty_rows
from clnr.engine.view import DeviceGraph, Drop, Neighbors, View
from clnr.errors import DeviceError
from clnr.graph.csr import Array
from clnr.support.humanize import describe_error

_NO_MASK = np.empty((0, 0), np.float32)
_NO_WEIGHTS = np.empty(0, np.float32)
_NO_WEIGHTS.flags.writeable = False


@functools.cache
def numba_kernels() -> Any:
    """The module of compiled loops; imported at the first call, since a GPU does not need it."""
    try:
        from clnr.engine.cpu import numba_kernels as kernels
    except (ImportError, RuntimeError) as error:  # RuntimeError: numba finds no folder for its cache.
        advice = "pip install numba, or let NUMBA_CACHE_DIR be a folder that can be written to"
        raise DeviceError(f"a CPU needs numba, which cannot be used ({describe_error(error)}): {advice}") from None
    return kernels


def _numbers(h: Tensor) -> Array:
    """Rows as the compiled loops take them; bfloat16, which NumPy does not have, by its bits."""
    return h.view(torch.uint16).numpy() if h.dtype == torch.bfloat16 else h.numpy()


class CSRArrays(NamedTuple):
    """A CSR matrix without the entries that a view drops."""

    indptr: Array
    columns: Array
    values: Array

    def scaled(self, sums: Array) -> CSRArrays:
        """Each entry over the roots of the sums of its row and of its column."""
        kernels, values = numba_kernels(), np.empty_like(self.values)
        share_rows(self.indptr, kernels.scale_entries, *self, 1 / np.sqrt(sums), values)
        return self._replace(values=values)

    def bounded(self, rows: Array, neighbors: Neighbors) -> CSRArrays:
        """At most a few neighbours of each row, given which nodes the rows are of."""
        kernels, taken, values = numba_kernels(), np.empty(len(self.columns), np.bool_), np.empty_like(self.values)
        a, b, _ = rng.settled(neighbors.key)
        bound = np.uint32(int(a)), np.uint32(int(b)), neighbors.most
        share_rows(self.indptr, kernels.take_neighbors, *self, rows, bound, taken, values)
        return CSRArrays(np.concatenate([[0], np.cumsum(taken)])[self.indptr], self.columns[taken], values[taken])

    def rows(self, rows: Array) -> CSRArrays:
        start, count = self.indptr[rows], np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(count)])
        place = np.arange(indptr[-1]) + np.repeat(start - indptr[:-1], count)
        return CSRArrays(indptr, self.columns[place], self.values[place])

    def transposed(self, shape: tuple[int, int]) -> CSRArrays:
        """The transpose of a matrix of this shape."""
        return to_arrays(sp.csr_array((self.values, self.columns, self.indptr), shape=shape).tocsc())

    def multiply(self, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """S f(h) + bias, f being ReLU or the identity, and zero where ``mask`` is not above zero; in the type of h."""
        above = _NO_MASK if mask is None else _numbers(mask)
        return self.multiply_array(_numbers(h), relu, bias, above).to(h.dtype)

    def multiply_array(self, rows: Array, relu: bool, bias: Tensor | None = None, above: Array = _NO_MASK) -> Tensor:
        """The same in float32, of rows that may be in a file, which are read where they are."""
        kernels, out = numba_kernels(), empty_rows(len(self.indptr) - 1, rows.shape[1], torch.device("cpu"))
        arguments = (*self, rows, relu, _bias(bias, out), above, out.numpy())
        share_rows(self.indptr, kernels.multiply, *arguments, width=rows.shape[1])
        return out

    def multiply_columns(self, factor: Tensor, h: Tensor, bias: Tensor | None) -> Tensor:
        """S D h + bias for the diagonal D of this factor."""
        kernels, out = numba_kernels(), empty_rows(len(self.indptr) - 1, h.shape[1], h.device)
        arguments = (*self, factor.numpy(), h.numpy(), _bias(bias, h), out.numpy())
        share_rows(self.indptr, kernels.multiply_columns, *arguments, width=h.shape[1])
        return out

    def multiply_rows(self, factor: Tensor, h: Tensor) -> Tensor:
        """D S h for the diagonal D of this factor."""
        kernels, out = numba_kernels(), empty_rows(len(self.indptr) - 1, h.shape[1], h.device)
        share_rows(self.indptr, kernels.multiply_rows, *self, factor.numpy(), h.numpy(), out.numpy(), width=h.shape[1])
        return out


def to_arrays(matrix: sp.csr_array | sp.csc_array) -> CSRArrays:
    """A matrix of SciPy, or the transpose of one by columns."""
    return CSRArrays(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.data)


def _bias(bias: Tensor | None, h: Tensor) -> Array:
    return np.zeros(h.shape[1], np.float32) if bias is None else bias.detach().numpy()


class MatrixRows:
    """Rows of the matrix that a view propagates by, or of its transpose, without what the view drops."""

    _count, _fill = "count_kept", "fill_kept"

    def __init__(self, view: View, transposed: bool = False):
        links, drop = view.propagation, view.drop
        entries = links.indptr, links.columns, links.values
        if transposed:
            entries = links.transposed_indptr, links.transposed_columns, links.transposed_values
        self._entries = tuple(each.numpy(force=True) for each in entries)
        self._rule = drop_rule(drop.reordered(links.order) if drop and transposed else drop, transposed)

    @property
    def all_rows(self) -> Array:
        return np.arange(len(self._entries[0]) - 1)

    def count(self, rows: Array) -> tuple[Array, Array]:
        """How many entries of each of these rows are kept, and the sum of their values."""
        counts, sums = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
        self._call(self._count, rows, counts, sums)
        return counts, sums

    def sums(self, rows: Array) -> Array:
        """The sum of the values of the kept entries of each of these rows."""
        return self.count(rows)[1]

    def fill(self, rows: Array, counts: Array) -> CSRArrays:
        """The kept entries of these rows, ``counts`` of each."""
        indptr = np.concatenate([[0], np.cumsum(counts)])
        kept = CSRArrays(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))
        self._call(self._fill, rows, *kept)
        return kept

    def _call(self, kernel: str, rows: Array, *more: Array) -> None:
        indptr = self._entries[0]
        load = np.concatenate([[0], np.cumsum(indptr[rows + 1] - indptr[rows])])
        share_rows(load, getattr(numba_kernels(), kernel), *self._entries, self._rule, rows, *more)


class GraphRows(MatrixRows):
    """``A + w I`` by target, read from a graph, without the edges that are held out, and those that are dropped at a rate.

    What is read is checked.
    """

    _count, _fill = "count_rows", "fill_rows"

    def __init__(self, device_graph: DeviceGraph, drop: Drop | None = None):
        self._device_graph, self._keeps_all = device_graph, drop is None
        indptr, indices, weight = device_graph.graph.incoming
        self._entries = indptr, indices, _NO_WEIGHTS if weight is None else weight
        self._rule = (*drop_rule(drop), device_graph.held_out, np.float32(device_graph.loop_weight))

    def count(self, rows: Array) -> tuple[Array, Array]:
        counts, sums, wrong = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32), np.zeros(len(rows), np.bool_)
        self._call(self._count, rows, counts, sums, wrong)
        if wrong.any():
            graph = self._device_graph.graph
            graph.take_edges(rows[wrong][:1], graph.incoming)  # Names the row.
            row = rows[np.argmax(wrong)]
            raise graph.damaged("incoming.weight", f"the weights of row {row} add up to more than float32 holds")
        return counts, sums

    def sums(self, rows: Array) -> Array:
        known = self._device_graph.of_edges.made.get("degrees") if self._keeps_all else None
        return self.count(rows)[1] if known is None else known[rows]

    def _call(self, kernel: str, rows: Array, *more: Array) -> None:
        indptr, indices, _ = self._entries
        starts, ends = indptr[rows], indptr[rows + 1]
        if not ((starts >= 0) & (starts <= ends) & (ends <= len(indices))).all():
            self._device_graph.graph.take_edges(rows, self._device_graph.graph.incoming)  # Names the row.
        super()._call(kernel, rows, *more)


def drop_rule(drop: Drop | None, transposed: bool = False) -> tuple[Any, ...]:
    """What the compiled loops take to know which entries are kept: of a matrix, or of its transpose."""
    rate = 0.0 if drop is None else drop.rate
    a, b, _ = rng.Key(0, 0) if drop is None else rng.settled(drop.key)
    each = isinstance(rate, Tensor)
    thresholds = torch.as_tensor(rng.threshold(rate)).reshape(-1)
    pairs = drop is not None and drop.pairs
    return np.uint32(int(a)), np.uint32(int(b)), thresholds.numpy().astype(np.uint64), int(each), pairs, transposed

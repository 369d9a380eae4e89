"""The CPU engine: compiled loops over the edges that a view keeps; without numba, torch's sparse product."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.engine.base import Engine, Operators, unit_rows
from clnr.engine.dense import narrowed, product
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.streams import Streams
from clnr.engine.torch_sparse import BlockEngine, Features, FusedMatrix, Matrix, TorchEngine, less_twins
from clnr.engine.view import Drop, Mask, Neighbors, View
from clnr.errors import DeviceError
from clnr.graph.csr import Array

_NONE = np.empty((0, 0), np.float32)
_DENSE_ABOVE = 0.2
_RANGE_OF_EXP = 80


@functools.cache
def numba_kernels() -> Any:
    """The module of compiled loops, or None without numba; imported at the first call, since a GPU does not need it."""
    try:
        from clnr.engine.cpu import numba_kernels as kernels
    except (ImportError, RuntimeError):  # RuntimeError: numba finds no folder for its cache.
        return None
    return kernels


def cpu_engine(dtype: torch.dtype = torch.float32) -> Engine:
    """The CPU engine: compiled loops, or torch's sparse product, which is slower and in float32, without numba."""
    if numba_kernels() is not None:
        return CompiledEngine(dtype)
    if dtype == torch.bfloat16:
        raise DeviceError("bfloat16 on a CPU needs numba, which cannot be used: pip install numba; or use float32")
    warnings.warn("numba cannot be used, so training on the CPU is slower; pip install numba", stacklevel=2)
    return TorchEngine("cpu-torch", torch.device("cpu"), _row_reduction, _DENSE_ABOVE)


def _row_reduction(matrix: Tensor, dense: Tensor) -> Tensor:
    return torch.sparse.mm(matrix, dense, "sum")


def _numbers(h: Tensor) -> Array:
    """Rows as the compiled loops take them; bfloat16, which NumPy does not have, by its bits."""
    return h.view(torch.uint16).numpy() if h.dtype == torch.bfloat16 else h.numpy()


def _empty(rows: int, columns: int) -> Tensor:
    """Uninitialised memory in large pages, which NumPy asks for and torch does not; page faults of small ones are slow."""
    return torch.from_numpy(np.empty((rows, columns), np.float32))


class CSRArrays(NamedTuple):
    """A CSR matrix without the entries that a view drops."""

    indptr: Array
    columns: Array
    values: Array

    def scaled(self, sums: Array) -> CSRArrays:
        """Each entry over the roots of the sums of its row and of its column."""
        kernels, values = numba_kernels(), np.empty_like(self.values)
        kernels.shared(self.indptr, kernels.scale_entries, *self, 1 / np.sqrt(sums), values)
        return self._replace(values=values)

    def bounded(self, rows: Array, neighbors: Neighbors) -> CSRArrays:
        """At most so many neighbours of each row, given which nodes the rows are of."""
        kernels, taken, values = numba_kernels(), np.empty(len(self.columns), np.bool_), np.empty_like(self.values)
        a, b, _ = rng.settled(neighbors.key)
        bound = np.uint32(int(a)), np.uint32(int(b)), neighbors.most
        kernels.shared(self.indptr, kernels.take_neighbors, *self, rows, bound, taken, values)
        return CSRArrays(np.concatenate([[0], np.cumsum(taken)])[self.indptr], self.columns[taken], values[taken])

    def transposed(self, shape: tuple[int, int]) -> CSRArrays:
        """The transpose of a matrix of this shape."""
        turned = sp.csr_array((self.values, self.columns, self.indptr), shape=shape).tocsc()
        return CSRArrays(turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data)

    def multiply(self, h: Tensor, relu: bool, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        """S f(h) + bias, f being ReLU or the identity, and zero where ``mask`` is not above zero; in the type of h."""
        width, kernels = h.shape[1], numba_kernels()
        out = _empty(len(self.indptr) - 1, width)
        above = _NONE if mask is None else _numbers(mask)
        arguments = (*self, _numbers(h), relu, _bias(bias, h), above, out.numpy())
        kernels.shared(self.indptr, kernels.multiply, *arguments, width=width)
        return out.to(h.dtype)


def _bias(bias: Tensor | None, h: Tensor) -> Array:
    return np.zeros(h.shape[1], np.float32) if bias is None else bias.detach().numpy()


class CompiledMatrix(FusedMatrix, Features):
    """A matrix without what one view drops; its transpose is built when a gradient needs it.

    Args:
        build: Builds the matrix, or given True its transpose.
        shape: Of the matrix.
    """

    def __init__(self, build: Callable[[bool], CSRArrays], shape: tuple[int, int]):
        self._build = build
        self._shape = shape
        self._forward = build(False)

    @cached_property
    def _transposed(self) -> CSRArrays:
        return self._build(True)

    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.arrays(transposed).multiply(h, relu, bias, mask)

    def arrays(self, transposed: bool) -> CSRArrays:
        """The matrix or its transpose."""
        return self._transposed if transposed else self._forward

    def to_dense(self) -> Tensor:
        indptr, columns, values = self._forward
        return torch.from_numpy(sp.csr_array((values, columns, indptr), shape=self._shape).toarray())


class MaskedColumns(FusedMatrix, Features):
    """Sparse features with each column times a factor, zero where it is masked; the matrix itself is not copied."""

    def __init__(self, whole: CompiledMatrix, factor: Tensor):
        self._whole, self._factor = whole, factor

    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        assert not relu
        assert mask is None
        kernels, arrays, factor = numba_kernels(), self._whole.arrays(transposed), self._factor.numpy()
        out = _empty(len(arrays.indptr) - 1, h.shape[1])
        if transposed:
            arguments: tuple[Any, ...] = (kernels.multiply_rows, *arrays, factor, h.numpy(), out.numpy())
        else:
            arguments = (kernels.multiply_columns, *arrays, factor, h.numpy(), _bias(bias, h), out.numpy())
        kernels.shared(arrays.indptr, *arguments, width=h.shape[1])
        return out

    def to_dense(self) -> Tensor:
        return self._whole.to_dense() * self._factor


class CompiledEngine(BlockEngine):
    """Compiled loops: a view's dropped edges are removed once, so that its products visit only the others.

    Args:
        dtype: The type of rows inside an encoder, and of what dense products multiply: float32 or bfloat16.
    """

    name = "cpu"
    device = torch.device("cpu")
    compiles = True
    dense_above = _DENSE_ABOVE

    def __init__(self, dtype: torch.dtype = torch.float32):
        self.dtype = dtype

    def propagation(self, view: View) -> Matrix:
        rule = DropRule(view)
        counts, sums = rule.count(rule.all_rows)

        def build(transposed: bool) -> CSRArrays:
            there = DropRule(view, transposed)
            kept = there.fill(there.all_rows, there.count(there.all_rows)[0] if transposed else counts)
            return kept.scaled(sums) if view.propagation_matrix is None else kept

        return CompiledMatrix(build, view.propagation.shape)

    def sampled_operators(
        self, view: View, nodes: Tensor, streams: Streams | None = None, draws: Tensor | None = None
    ) -> Operators:
        return self.block_operators(view, nodes)

    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> CompiledMatrix:
        return CompiledMatrix(lambda transposed: arrays.transposed(shape) if transposed else arrays, shape)

    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        matrix = self.block_matrix(CSRArrays(rows.indptr.astype(np.int64), rows.indices, rows.data), rows.shape)
        return matrix if mask is None else MaskedColumns(matrix, mask.of_columns(rows.shape[1], self.device).float())

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        if mask is not None and mask.elements:
            return _features(x, x.values * mask.of_entries(x))
        whole = x.once("features", lambda: _features(x, x.values))
        return whole if mask is None else MaskedColumns(whole, mask.of_columns(x.shape[1], x.values.device).float())

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        # The logits of unit rows are within 1 / tau, so exp needs no maximum subtracted unless it would overflow.
        if rows.shape[0] <= _NTXent.LARGEST and 2 / temperature < _RANGE_OF_EXP:
            return _NTXent.apply(unit_rows(rows), temperature, self.dtype)
        return super().nt_xent(rows, temperature)


def _structure(x: SparseMatrix, transposed: bool) -> tuple[Array, Array]:
    """``indptr`` and columns of a matrix or its transpose."""
    indptr, columns = (x.transposed_indptr, x.transposed_columns) if transposed else (x.indptr, x.columns)
    return indptr.numpy(force=True), columns.numpy(force=True)


class DropRule:
    """Which entries of its matrix, or of the transpose, a view keeps, as the compiled loops take it."""

    def __init__(self, view: View, transposed: bool = False):
        links, drop = view.propagation, view.drop
        values = links.transposed_values if transposed else links.values
        self._entries = (*_structure(links, transposed), values.numpy(force=True))
        self._rule = drop_rule(drop, links, transposed)

    @property
    def all_rows(self) -> Array:
        return np.arange(len(self._entries[0]) - 1)

    def _load(self, rows: Array) -> Array:
        """How many entries the rows before each of these have, and all of them."""
        indptr = self._entries[0]
        return np.concatenate([[0], np.cumsum(indptr[rows + 1] - indptr[rows])])

    def count(self, rows: Array) -> tuple[Array, Array]:
        """How many entries of each of these rows are kept, and the sum of their values."""
        kernels, counts, sums = numba_kernels(), np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
        kernels.shared(self._load(rows), kernels.count_kept, *self._entries, self._rule, rows, counts, sums)
        return counts, sums

    def sums(self, rows: Array) -> Array:
        """The sum of the values of the kept entries of each of these rows."""
        return self.count(rows)[1]

    def fill(self, rows: Array, counts: Array) -> CSRArrays:
        """The kept entries of these rows, so many of each."""
        kernels, kept = numba_kernels(), allocated(counts)
        kernels.shared(self._load(rows), kernels.fill_kept, *self._entries, self._rule, rows, *kept)
        return kept


def drop_rule(drop: Drop | None, links: SparseMatrix | None = None, transposed: bool = False) -> tuple[Any, ...]:
    """What the compiled loops take to know which entries are kept: of a matrix, if each has a rate, or of its transpose."""
    rate = 0.0 if drop is None else drop.rate
    a, b, _ = rng.Key(0, 0) if drop is None else rng.settled(drop.key)
    each = isinstance(rate, Tensor)
    thresholds = torch.as_tensor(rng.threshold(rate)).reshape(-1)
    thresholds = thresholds[links.order] if each and transposed and links is not None else thresholds
    pairs = drop is not None and drop.pairs
    return np.uint32(int(a)), np.uint32(int(b)), thresholds.numpy().astype(np.uint64), int(each), pairs, transposed


def allocated(counts: Array) -> CSRArrays:
    """Room for so many entries in each row."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return CSRArrays(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32))


def _features(x: SparseMatrix, values: Tensor) -> CompiledMatrix:
    """Features without the zeros among their values."""

    def build(transposed: bool) -> CSRArrays:
        return _nonzero(*_structure(x, transposed), (values[x.order] if transposed else values).numpy())

    return CompiledMatrix(build, x.shape)


def _nonzero(indptr: Array, columns: Array, values: Array) -> CSRArrays:
    kernels, counts = numba_kernels(), np.empty(len(indptr) - 1, np.int64)
    kernels.shared(indptr, kernels.count_nonzero, indptr, values, counts)
    kept = allocated(counts)
    kernels.shared(indptr, kernels.fill_nonzero, indptr, columns, values, *kept)
    return kept


class _NTXent(torch.autograd.Function):
    r"""NT-Xent of few unit rows: all similarities are kept, and as they are symmetric, only half of them are computed.

    Products are of rows in ``dtype``; the rest, and the similarities of twins in the numerator, is in float32.

    With :math:`E = \exp((R R^T - 1) / \tau)` (diagonal zero) and row sums s, the loss is the mean of
    :math:`\log s_i + (1 - r_i \cdot r_{twin}) / \tau`, and its gradient
    :math:`((E \circ (1/s_i + 1/s_j)) R - 2 R_{twin}) / (2 m \tau)`.
    """

    LARGEST = 4096
    _BLOCK = 512

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float, dtype: torch.dtype) -> Tensor:
        count, narrow = rows.shape[0], narrowed(rows, dtype)
        blocks = [slice(i, i + _NTXent._BLOCK) for i in range(0, count, _NTXent._BLOCK)]
        e = rows.new_empty(count, count)
        for i, one in enumerate(blocks):
            for other in blocks[i:]:
                part = product(narrow[one], narrow[other].T).sub_(1).div_(temperature).exp_()
                e[one, other] = part
                e[other, one] = part.T
        e.fill_diagonal_(0)
        total = e.sum(1)
        twin = rows.roll(count // 2, 0)
        ctx.save_for_backward(rows, None if narrow is rows else narrow, e, total)
        ctx.temperature = temperature
        return (total.log() + (1 - (rows * twin).sum(1)) / temperature).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, narrow, e, total = ctx.saved_tensors
        count = rows.shape[0]
        share = 1 / total
        both = (share[:, None] + share).mul_(e)
        if narrow is None:
            gradient = torch.addmm(rows.roll(count // 2, 0), both, rows, beta=-2)
        else:
            gradient = product(narrowed(less_twins(both, 0), narrow.dtype), narrow)
        return gradient * (grads[0] / (count * ctx.temperature)), None, None

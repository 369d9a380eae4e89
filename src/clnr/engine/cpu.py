"""The CPU's engine: compiled loops over the edges that a view keeps; torch's row reduction where numba is not there."""

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
from clnr.engine.base import Drop, Engine, Mask, View, unit_rows
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.torch_sparse import Features, FusedMatrix, Matrix, SparseEngine, TorchEngine
from clnr.graph.csr import Array

_NONE = np.empty((0, 0), np.float32)
_DENSE_ABOVE = 0.2
_RANGE_OF_EXP = 80


@functools.cache
def loops() -> Any:
    """The compiled loops, or None without numba; imported where first used, for a GPU has no use for them."""
    try:
        from clnr.engine import numba_kernels as found
    except (ImportError, RuntimeError):  # The latter where numba finds no folder to keep what it has compiled.
        return None
    return found


def cpu() -> Engine:
    """Compiled loops, or without numba what torch has, which is slower."""
    if loops() is not None:
        return CompiledEngine()
    warnings.warn("numba cannot be used, so that training on the CPU is slower; pip install numba", stacklevel=2)
    return TorchEngine("cpu-torch", torch.device("cpu"), _row_reduction, _DENSE_ABOVE)


def _row_reduction(matrix: Tensor, dense: Tensor) -> Tensor:
    return torch.sparse.mm(matrix, dense, "sum")


def _empty(rows: int, columns: int) -> Tensor:
    """Memory in large pages, which NumPy asks for and torch does not: to touch small ones takes as long as a product."""
    return torch.from_numpy(np.empty((rows, columns), np.float32))


class CSRArrays(NamedTuple):
    """CSR rows without what a view leaves out."""

    start: Array
    columns: Array
    values: Array

    def multiply(self, h: Tensor, relu: bool, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        """S f(h) + bias, and zero where ``mask`` is not above zero."""
        out = _empty(len(self.start) - 1, h.shape[1])
        above = _NONE if mask is None else mask.numpy()
        loops().shared(self.start, loops().multiply, *self, h.numpy(), relu, _bias(bias, h), above, out.numpy())
        return out


def _bias(bias: Tensor | None, h: Tensor) -> Array:
    return np.zeros(h.shape[1], np.float32) if bias is None else bias.detach().numpy()


class CompiledMatrix(FusedMatrix, Features):
    """Rows thinned out for one view; their transpose only when a gradient asks for it."""

    def __init__(self, thin: Callable[[bool], CSRArrays], shape: tuple[int, int]):
        self._thin = thin
        self._shape = shape
        self._forth = thin(False)

    @cached_property
    def _back(self) -> CSRArrays:
        return self._thin(True)

    def multiply(
        self, back: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        return self.side(back).multiply(h, relu, bias, mask)

    def side(self, back: bool) -> CSRArrays:
        """Its rows, or those of its transpose."""
        return self._back if back else self._forth

    def to_dense(self) -> Tensor:
        start, columns, values = self._forth
        return torch.from_numpy(sp.csr_array((values, columns, start), shape=self._shape).toarray())


class MaskedColumns(FusedMatrix, Features):
    """Features that stay as they are, each column times a factor, which is zero where it is masked."""

    def __init__(self, whole: CompiledMatrix, factor: Tensor):
        self._whole, self._factor = whole, factor

    def multiply(
        self, back: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        assert not relu
        assert mask is None
        thin, factor = self._whole.side(back), self._factor.numpy()
        out = _empty(len(thin.start) - 1, h.shape[1])
        if back:
            loops().shared(thin.start, loops().multiply_rows, *thin, factor, h.numpy(), out.numpy())
        else:
            loops().shared(thin.start, loops().multiply_columns, *thin, factor, h.numpy(), _bias(bias, h), out.numpy())
        return out

    def to_dense(self) -> Tensor:
        return self._whole.to_dense() * self._factor


class CompiledEngine(SparseEngine):
    """Every view's edges are thinned out once; all its products then touch only what is left. Features stay as they are."""

    name = "cpu"
    device = torch.device("cpu")
    compiles = True
    dense_above = _DENSE_ABOVE

    def propagation(self, view: View) -> Matrix:
        links = view.propagation
        rule = _Rule(view.drop, links)
        counts, sums = rule.count(False)
        scale = 1 / np.sqrt(sums) if view.propagation_matrix is None else np.ones(len(sums), np.float32)
        return CompiledMatrix(lambda back: rule.fill(back, rule.count(True)[0] if back else counts, scale), links.shape)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        if mask is not None and mask.elements:
            return _features(x, x.values * mask.of_entries(x))
        whole = x.once("features", lambda: _features(x, x.values))
        return whole if mask is None else MaskedColumns(whole, mask.of_columns(x.shape[1], x.values.device).float())

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        # Unit rows have logits within 1 / tau, so that no maximum need be looked for; unless exp would reach its end.
        if rows.shape[0] <= _NTXent.LARGEST and 2 / temperature < _RANGE_OF_EXP:
            return _NTXent.apply(unit_rows(rows), temperature)
        return super().nt_xent(rows, temperature)


def _sides(x: SparseMatrix) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return (x.start, x.columns), (x.transposed_start, x.transposed_columns)


class _Rule:
    """Which links a view keeps, for the loops."""

    def __init__(self, drop: Drop | None, links: SparseMatrix):
        self._links = links
        self._drop = drop
        self._rates = 0.0 if drop is None else drop.rate

    def _of(self, back: bool) -> tuple[Any, ...]:
        a, b, _ = rng.Key(0, 0) if self._drop is None else rng.settled(self._drop.key)
        each = isinstance(self._rates, Tensor)
        thresholds = torch.as_tensor(rng.threshold(self._rates)).reshape(-1)
        thresholds = thresholds[self._links.order] if each and back else thresholds
        pairs = self._drop is not None and self._drop.pairs
        return np.uint32(int(a)), np.uint32(int(b)), thresholds.numpy().astype(np.uint64), int(each), pairs, back

    def _entries(self, back: bool) -> tuple[Array, Array, Array]:
        links = self._links
        start, columns = _sides(links)[back]
        return start.numpy(), columns.numpy(), (links.transposed_values if back else links.values).numpy()

    def count(self, back: bool) -> tuple[Array, Array]:
        entries = self._entries(back)
        rows = len(entries[0]) - 1
        counts, sums = np.empty(rows, np.int64), np.empty(rows, np.float32)
        loops().shared(entries[0], loops().count_kept, *entries, self._of(back), counts, sums)
        return counts, sums

    def fill(self, back: bool, counts: Array, scale: Array) -> CSRArrays:
        entries = self._entries(back)
        begin = np.concatenate([[0], np.cumsum(counts)])
        columns, values = np.empty(begin[-1], np.int32), np.empty(begin[-1], np.float32)
        loops().shared(entries[0], loops().fill_kept, *entries, self._of(back), scale, scale, begin, columns, values)
        return CSRArrays(begin, columns, values)


def _features(x: SparseMatrix, values: Tensor) -> CompiledMatrix:
    """Features that are not zero."""

    def thin(back: bool) -> CSRArrays:
        start, columns = _sides(x)[back]
        return _nonzero(start.numpy(), columns.numpy(), (values[x.order] if back else values).numpy())

    return CompiledMatrix(thin, x.shape)


def _nonzero(start: Array, columns: Array, values: Array) -> CSRArrays:
    counts = np.empty(len(start) - 1, np.int64)
    loops().shared(start, loops().count_nonzero, start, values, counts)
    begin = np.concatenate([[0], np.cumsum(counts)])
    to, weights = np.empty(begin[-1], np.int32), np.empty(begin[-1], np.float32)
    loops().shared(start, loops().fill_nonzero, start, columns, values, begin, to, weights)
    return CSRArrays(begin, to, weights)


class _NTXent(torch.autograd.Function):
    r"""NT-Xent of so few unit rows that their similarities can be kept, which are symmetric: half are computed, each once.

    With :math:`E = \exp((R R^T - 1) / \tau)` (diagonal zero) and row sums s, the loss is the mean of
    :math:`\log s_i + (1 - r_i \cdot r_{twin}) / \tau`, and its gradient
    :math:`((E \circ (1/s_i + 1/s_j)) R - 2 R_{twin}) / (2 m \tau)`.
    """

    LARGEST = 4096
    _BLOCK = 512

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float) -> Tensor:
        count = rows.shape[0]
        blocks = [slice(i, i + _NTXent._BLOCK) for i in range(0, count, _NTXent._BLOCK)]
        e = rows.new_empty(count, count)
        for i, one in enumerate(blocks):
            for other in blocks[i:]:
                part = torch.mm(rows[one], rows[other].T).sub_(1).div_(temperature).exp_()
                e[one, other] = part
                e[other, one] = part.T
        e.fill_diagonal_(0)
        total = e.sum(1)
        twin = rows.roll(count // 2, 0)
        ctx.save_for_backward(rows, e, total)
        ctx.temperature = temperature
        return (total.log() + (1 - (rows * twin).sum(1)) / temperature).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, e, total = ctx.saved_tensors
        count = rows.shape[0]
        share = 1 / total
        both = (share[:, None] + share).mul_(e)
        gradient = torch.addmm(rows.roll(count // 2, 0), both, rows, beta=-2)
        return gradient * (grads[0] / (count * ctx.temperature)), None

"""Dense work by Triton's kernels: one launch where torch needs many."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from clnr.engine.dense import AdamTensors, Dense, LinearStats
from clnr.engine.sparse_matrix import SparseMatrix

# So many rows or fewer of some columns fit into the registers of one program.
_ROWS_IN_REGISTERS = 4096
# torch's fused step has one program for 65,536 numbers, which leaves most of a GPU idle.
_NUMBERS_WORTH_A_KERNEL = 1 << 14


@functools.cache
def triton_kernels() -> ModuleType | None:
    """The package ``clnr.engine.gpu.triton``, or None without Triton; imported at the first call, since that takes a while."""
    try:
        from clnr.engine.gpu import triton as kernels
    except ImportError:
        return None
    return kernels


def the_kernels() -> ModuleType:
    """``triton_kernels`` where Triton is there."""
    kernels = triton_kernels()
    assert kernels is not None
    return kernels


class KernelDense(Dense):
    """Dense work by Triton's kernels; in float64 by torch."""

    def __init__(self, kernels: ModuleType):
        self._kernels = kernels

    def column_sums(self, z: Tensor, scale: float = 1.0) -> Tensor:
        return super().column_sums(z, scale) if _double(z) else self._kernels.column_sums(z, scale)

    def moments(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if _double(z):
            return super().moments(z)
        share = 1 / self.workers.num_rows(z)
        (mean,) = self.workers.all_reduce(self.column_sums(z, share))
        (variance,) = self.workers.all_reduce(self._kernels.column_sums(z, share, mean, square=True))
        return variance, mean

    def segment_sums(self, values: Tensor, links: SparseMatrix, transposed: bool = False) -> Tensor:
        if _double(values):
            return super().segment_sums(values, links, transposed)
        # A product with ones, since torch's sum has one thread for all edges of a hub.
        starts, entries = links.transposed_indptr if transposed else links.indptr, len(links.columns)

        def laid_out() -> Any:
            return self._kernels.prepare(starts, torch.arange(entries, device=starts.device), None, (len(starts) - 1, entries))

        return self._kernels.multiply(links.once(("segments", transposed), laid_out), values)

    def segment_max(self, values: Tensor, links: SparseMatrix) -> Tensor:
        lowest = values.new_full((links.shape[0], values.shape[1]), -torch.inf)
        return lowest.scatter_reduce_(0, links.rows[:, None].expand_as(values), values, "amax")

    def centred(self, z: Tensor, mean: Tensor) -> Tensor:
        return super().centred(z, mean) if _double(z) else self._kernels.centred(z, mean)

    def covariance_weight(self, covariance: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        with tf32() if weight.is_cuda and dtype == torch.bfloat16 else contextlib.nullcontext():
            return covariance @ weight

    def linear_moments(self, stats: LinearStats, bias: Tensor) -> tuple[Tensor, Tensor]:
        compute = super().linear_moments if _double(stats.weight) else self._kernels.linear_moments
        return compute(stats, bias)

    def linear_moments_backward(
        self, stats: LinearStats, of_weight: Tensor, of_variance: Tensor, of_mean: Tensor, of_bias: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        double = _double(stats.weight)
        compute = super().linear_moments_backward if double else self._kernels.linear_moments_backward
        return compute(stats, of_weight, of_variance, of_mean, of_bias)

    def standardised(self, z: Tensor, variance: Tensor, mean: Tensor) -> Tensor:
        return super().standardised(z, variance, mean) if _double(z) else _Standardised.apply(z, variance, mean, self._kernels)

    def standardise(self, z: Tensor) -> Tensor:
        if _double(z) or len(z) > _ROWS_IN_REGISTERS or not self.workers.alone:
            return super().standardise(z)
        return _Standardise.apply(z, self._kernels)

    def adam(self, tensors: Sequence[AdamTensors], step: Tensor, rate: float | Tensor, decay: float, decoupled: bool) -> None:
        def large(each: AdamTensors) -> bool:
            return isinstance(rate, Tensor) and each.parameter.numel() > _NUMBERS_WORTH_A_KERNEL and not _double(each.parameter)

        for each in filter(large, tensors):
            self._kernels.adam(*each, step, rate, decay, decoupled)
        super().adam([each for each in tensors if not large(each)], step, rate, decay, decoupled)


def _double(z: Tensor) -> bool:
    return z.dtype == torch.float64


@contextlib.contextmanager
def tf32() -> Iterator[None]:
    """Multiply float32 on the tensor cores, at ten bits: enough where rows have only the precision of bfloat16."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class _Standardised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, variance: Tensor, mean: Tensor, kernels: ModuleType) -> Tensor:
        z = z.contiguous()
        ctx.save_for_backward(z, variance, mean)
        ctx.kernels = kernels
        return kernels.standardised(z, variance, mean)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *ctx.kernels.standardised_backward(grads[0], *ctx.saved_tensors), None


class _Standardise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, kernels: ModuleType) -> Tensor:
        out, inverses = kernels.standardise(z.contiguous())
        ctx.save_for_backward(out, inverses)
        ctx.kernels, ctx.dtype = kernels, z.dtype
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.kernels.standardise_backward(grads[0], *ctx.saved_tensors, ctx.dtype), None

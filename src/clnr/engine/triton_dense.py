"""Dense work by Triton's kernels: one launch where torch takes many."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from clnr.engine.dense import Dense


@functools.cache
def kernels() -> ModuleType | None:
    """``clnr.engine.triton``, where Triton can be imported; not before it is asked for, since that takes its time."""
    try:
        from clnr.engine import triton as found
    except ImportError:
        return None
    return found


class KernelDense(Dense):
    """By kernels in float32 or less; what is in float64 stays torch's."""

    def __init__(self, tools: ModuleType):
        self._tools = tools

    def column_sums(self, z: Tensor, scale: float = 1.0) -> Tensor:
        return super().column_sums(z, scale) if _double(z) else self._tools.column_sums(z, scale)

    def moments(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if _double(z):
            return super().moments(z)
        mean = self.column_sums(z, 1 / len(z))
        return self._tools.column_sums(z, 1 / len(z), mean, square=True), mean

    def centred(self, z: Tensor, mean: Tensor) -> Tensor:
        return super().centred(z, mean) if _double(z) else self._tools.centred(z, mean)

    def spread(self, covariance: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        with _ten_bits() if weight.is_cuda and dtype == torch.bfloat16 else contextlib.nullcontext():
            return covariance @ weight

    def affine_moments(self, weight: Tensor, spread: Tensor, mean: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        own = super().affine_moments if _double(weight) else self._tools.affine_moments
        return own(weight, spread, mean, bias)

    def affine_back(
        self,
        weight: Tensor,
        spread: Tensor,
        mean: Tensor,
        picked: Tensor,
        of_all: tuple[Tensor, Tensor],
        whole: Tensor,
        count: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        own = super().affine_back if _double(weight) else self._tools.affine_back
        variance, middle = (each.contiguous() for each in of_all)
        return own(weight, spread, mean, picked, (variance, middle), whole, count, dtype)

    def standardised(self, z: Tensor, variance: Tensor, mean: Tensor) -> Tensor:
        return super().standardised(z, variance, mean) if _double(z) else _Standardised.apply(z, variance, mean, self._tools)


def _double(z: Tensor) -> bool:
    return z.dtype == torch.float64


@contextlib.contextmanager
def _ten_bits() -> Iterator[None]:
    """Rows have only bfloat16's precision, so that float32 is multiplied on the matrix units, at ten bits: in here alone."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class _Standardised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, variance: Tensor, mean: Tensor, tools: ModuleType) -> Tensor:
        z = z.contiguous()
        ctx.save_for_backward(z, variance, mean)
        ctx.tools = tools
        return tools.standardised(z, variance, mean)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *ctx.tools.standardised_back(grads[0], *ctx.saved_tensors), None

"""Dense products and sums over rows in plain torch; an engine may have faster ones."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

_WORTH_HALVING = 128


@functools.cache
def _widens() -> bool:
    """Whether this torch multiplies bfloat16 into float32 on a GPU."""
    return "dtype" in torch.ops.aten.mm.overloads()


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """A B in float32 or better, whatever the factors are; with ``bias``, plus that."""
    if a.dtype != torch.bfloat16:
        return a @ b if bias is None else torch.addmm(bias, a, b)
    if not a.is_cuda or not _widens():
        return product(a.float(), b.float(), bias)
    wide: Any = {"out_dtype": torch.float32}
    out = torch.mm(a, b, **wide)
    return out if bias is None else out.add_(bias)


def gram(p: Tensor) -> Tensor:
    """P^T P in float32 or better, where what stands below the diagonal is not computed but copied from above."""
    if p.dtype == torch.bfloat16:
        return product(p.T, p)
    half = p.shape[1] // 2
    if half < _WORTH_HALVING:
        return p.T @ p
    left, right = p[:, :half], p[:, half:]
    across = left.T @ right
    return torch.cat([torch.cat([gram(left), across], 1), torch.cat([across.T, gram(right)], 1)])


def inverse_deviation(variance: Tensor, mean: Tensor) -> Tensor:
    """1 / sigma, and 0 for what is ``constant``."""
    same = constant(variance, mean)
    return torch.where(same, 0, torch.where(same, 1, variance).rsqrt())


def constant(variance: Tensor, mean: Tensor) -> Tensor:
    """Whether what has this variance and mean does not vary but for rounding: a deviation under a millionth of its size."""
    return variance <= 1e-12 * (variance + mean.square())


class Dense:
    """What an engine does with dense rows: sums over columns, their moments, affine layers, standardisation."""

    def column_sums(self, z: Tensor, scale: float = 1.0) -> Tensor:
        """The sum of each column times ``scale``, in float32 or better."""
        # A product with a vector is a faster sum over rows than torch's on a CPU.
        z = z.float() if z.dtype == torch.bfloat16 else z
        return z.new_full((len(z),), scale) @ z

    def column_moments(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Variance (divisor n) and mean of each column."""
        return _Moments.apply(z, self)

    def moments(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The same, not differentiable."""
        share = 1 / len(z)
        mean = self.column_sums(z, share)
        # What the first sum is off by, a second mends.
        away = z - mean
        off = self.column_sums(away, share)
        return (self.column_sums(away.square(), share) - off.square()).clamp(min=0), mean + off

    def centred(self, z: Tensor, mean: Tensor) -> Tensor:
        """Rows less ``mean``, in their own type."""
        return (z - mean).to(z.dtype)

    def affine(self, p: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """P W + b, in the type of P."""
        return _Affine.apply(p, weight, bias, self)

    def spread(self, covariance: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """A covariance times W, as exactly as rows of ``dtype`` deserve."""
        return covariance @ weight

    def affine_moments(self, weight: Tensor, spread: Tensor, mean: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Of the columns of P W + b: variance, ``spread`` being the covariance of P times W, and mean, ``mean`` being P's."""
        return (weight * spread).sum(0).clamp(min=0), mean @ weight + bias

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
        """What ``affine_moments`` does to gradients: that of W, W times twice a row's share of the variance's, and P's mean's.

        Args:
            weight: W.
            spread: The covariance of P times W.
            mean: Of P.
            picked: What picked rows contribute to the gradient of W.
            of_all: Gradients with respect to variance and mean.
            whole: That with respect to what is added to every picked row.
            count: How many rows P has.
            dtype: Of the rows of P.
        """
        of_variance, of_mean = of_all
        of_weight = picked + 2 * spread * of_variance + torch.outer(mean, whole)
        return of_weight, (weight * (of_variance * (2 / count))).to(dtype), weight @ of_mean / count

    def standardised(self, z: Tensor, variance: Tensor, mean: Tensor) -> Tensor:
        """Columns less their mean, over their deviation; zeros, with zero gradients, where they are ``constant``."""
        return (z - mean) * inverse_deviation(variance, mean)


PLAIN = Dense()


class _Moments(torch.autograd.Function):
    """On the way back, a share of the mean's gradient for every row, and of the variance's by how far it is from the mean."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, dense: Dense) -> tuple[Tensor, Tensor]:
        variance, mean = dense.moments(z)
        ctx.save_for_backward(z, mean)
        return variance, mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        z, mean = ctx.saved_tensors
        variance, middle = (g / len(z) for g in grads)
        return torch.addcmul(middle - 2 * mean * variance, z, 2 * variance).to(z.dtype), None


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, weight: Tensor, bias: Tensor, dense: Dense) -> Tensor:
        ctx.save_for_backward(p, weight)
        ctx.dense = dense
        return torch.addmm(bias.to(p.dtype), p, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        p, weight = ctx.saved_tensors
        (g,) = grads
        needs = ctx.needs_input_grad
        bias = ctx.dense.column_sums(g) if needs[2] else None
        return g @ weight.T if needs[0] else None, p.T @ g if needs[1] else None, bias, None

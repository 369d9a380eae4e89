"""Dense products and column statistics in plain torch; an engine may have faster ones."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clnr.engine.products import at_least_float32, gram, product
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.support.processes.workers import ALONE, Workers

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


def inverse_deviation(variance: Tensor, mean: Tensor) -> Tensor:
    """1 / sigma, and 0 where a column is ``constant``."""
    same = constant(variance, mean)
    return torch.where(same, 0, torch.where(same, 1, variance).rsqrt())


def constant(variance: Tensor, mean: Tensor) -> Tensor:
    """Whether numbers of this variance and mean are constant up to rounding: a deviation under a millionth of their size."""
    return variance <= 1e-12 * (variance + mean.square())


class LinearStats(NamedTuple):
    """W, C W, the column means of P, its number of rows and its type: what the column moments of P W + b are computed from.

    C is the covariance of P (divisor n).
    """

    weight: Tensor
    covariance_weight: Tensor
    mean: Tensor
    num_rows: int
    dtype: torch.dtype


class AdamTensors(NamedTuple):
    """A parameter, its gradient, and the running means of gradients and of their squares."""

    parameter: Tensor
    gradient: Tensor
    mean: Tensor
    square: Tensor


class Dense:
    """What an engine does with dense rows: column sums and moments, linear layers, standardisation. Here in plain torch."""

    workers: Workers = ALONE
    """Whose rows ``column_moments`` and ``batch_norm`` are over."""

    def among(self, workers: Workers) -> Dense:
        """The same operations for rows that are one worker's share."""
        if workers.alone:
            return self
        shared = copy.copy(self)
        shared.workers = workers
        return shared

    def column_sums(self, z: Tensor, scale: float = 1.0) -> Tensor:
        """The sum of each column times ``scale``, in float32 or better."""
        # On a CPU, a product with a vector is faster than torch's sum over rows.
        z = at_least_float32(z)
        return z.new_full((len(z),), scale) @ z

    def column_moments(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Variance (divisor n) and mean of each column, over the rows of all workers."""
        return _Moments.apply(z, self)

    def moments(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """``column_moments`` without a gradient."""
        share = 1 / self.workers.num_rows(z)
        (mean,) = self.workers.all_reduce(self.column_sums(z, share))
        # The mean of what is left corrects the rounding of the first sum.
        away = z - mean
        off, square = self.workers.all_reduce(self.column_sums(away, share), self.column_sums(away.square(), share))
        return (square - off.square()).clamp(min=0), mean + off

    def segment_sums(self, values: Tensor, links: SparseMatrix, transposed: bool = False) -> Tensor:
        """The sums of the rows of ``values`` that belong to the entries of each row of ``links``, or of its transpose."""
        starts = links.transposed_indptr if transposed else links.indptr
        return torch.segment_reduce(values.contiguous(), "sum", offsets=starts, unsafe=True)

    def segment_max(self, values: Tensor, links: SparseMatrix) -> Tensor:
        """The same with the largest of each column, of rows that all have entries."""
        return torch.segment_reduce(values.contiguous(), "max", offsets=links.indptr, unsafe=True)

    def batch_norm(self, h: Tensor, scale: Tensor, shift: Tensor, epsilon: float, weights: Tensor | None = None) -> Tensor:
        """Columns standardised, then scaled and shifted; rows count by ``Workers.weights``."""
        if weights is None:
            return torch.batch_norm(h, scale, shift, None, None, True, 0.0, epsilon, False)
        variance, mean = _WeightedMoments.apply(h, weights, self.workers)
        return ((h - mean) * (scale * (variance + epsilon).rsqrt()) + shift).to(h.dtype)

    def centred(self, z: Tensor, mean: Tensor) -> Tensor:
        """Rows less ``mean``, in the type of the rows."""
        return (z - mean).to(z.dtype)

    def linear(self, p: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """P W + b, in the type of P, which W must have too."""
        return _Linear.apply(p, weight, bias, self)

    def sample_linear(self, p: Tensor, weight: Tensor, bias: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Some rows of P W + b, and variance (divisor n) and mean of each column of all; no other row is computed."""
        return _SampleLinear.apply(p, weight, bias, index, self)

    def covariance_weight(self, covariance: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """C W for a covariance C, as precise as rows of ``dtype`` need it."""
        return covariance @ weight

    def linear_moments(self, stats: LinearStats, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Variance (divisor n) and mean of each column of P W + b."""
        return (stats.weight * stats.covariance_weight).sum(0).clamp(min=0), stats.mean @ stats.weight + bias

    def linear_moments_backward(
        self, stats: LinearStats, of_weight: Tensor, of_variance: Tensor, of_mean: Tensor, of_bias: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""The gradients of ``linear_moments``, given those of its results, together with those of some rows of P W + b.

        These are the gradient of W through the rows, for centred P, and that of what is added to every row. Returns the
        gradient of W; :math:`\frac{2}{n} W \mathrm{diag}(v)` for the gradient v of the variances, in the type of P; and a row's
        share of the gradient of the mean of P.
        """
        weight, covariance_weight, mean, num_rows, dtype = stats
        of_weight = of_weight + 2 * covariance_weight * of_variance + torch.outer(mean, of_bias)
        return of_weight, (weight * (of_variance * (2 / num_rows))).to(dtype), weight @ of_mean / num_rows

    def adam(self, tensors: Sequence[AdamTensors], step: Tensor, rate: float | Tensor, decay: float, decoupled: bool) -> None:
        """Step number ``step`` of Adam, in place (Kingma and Ba, 2015); torch.optim is avoided, since its import takes seconds.

        The decay acts on the weights themselves where it is ``decoupled`` (Loshchilov and Hutter, 2019), else on the gradient.
        """
        if not tensors:
            return
        fused: Any = torch._fused_adamw_ if decoupled else torch._fused_adam_
        fused(
            *(list(each) for each in zip(*tensors, strict=True)),
            [],
            [step] * len(tensors),
            lr=rate,
            beta1=ADAM_BETAS[0],
            beta2=ADAM_BETAS[1],
            weight_decay=decay,
            eps=ADAM_EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def standardise(self, z: Tensor) -> Tensor:
        """``standardised`` by the columns' own moments."""
        return self.standardised(z, *self.column_moments(z))

    def standardised(self, z: Tensor, variance: Tensor, mean: Tensor) -> Tensor:
        """Columns less their mean, over their deviation; zeros, with zero gradients, where they are ``constant``."""
        return (z - mean) * inverse_deviation(variance, mean)


PLAIN: Dense = Dense()


class _Moments(torch.autograd.Function):
    """Each row gets a share of the mean's gradient, and by its distance to the mean one of the variance's."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, dense: Dense) -> tuple[Tensor, Tensor]:
        variance, mean = dense.moments(z)
        ctx.save_for_backward(z, mean)
        ctx.workers = dense.workers
        return variance, mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        z, mean = ctx.saved_tensors
        count = ctx.workers.num_rows(z)
        variance, middle = (g / count for g in ctx.workers.all_reduce(*grads))
        return torch.addcmul(middle - 2 * mean * variance, z, 2 * variance).to(z.dtype), None


class _WeightedMoments(torch.autograd.Function):
    """``_Moments`` of rows that count by weights, whatever their sum."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, weights: Tensor, workers: Workers) -> tuple[Tensor, Tensor]:
        z = at_least_float32(z)
        (count,) = workers.all_reduce(weights.sum())
        share = weights / count
        (mean,) = workers.all_reduce(share @ z)
        away = z - mean
        off, square = workers.all_reduce(share @ away, share @ away.square())
        mean = mean + off
        ctx.save_for_backward(z, share, mean)
        ctx.workers = workers
        return (square - off.square()).clamp(min=0), mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        z, share, mean = ctx.saved_tensors
        variance, middle = ctx.workers.all_reduce(*grads)
        return share[:, None] * torch.addcmul(middle - 2 * mean * variance, z, 2 * variance), None, None


class _Linear(torch.autograd.Function):
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


class _SampleLinear(torch.autograd.Function):
    r"""Some rows of :math:`Z = P W + b`, and variance and mean of the columns of Z.

    With :math:`\bar P` and C the mean and covariance of P, the mean is :math:`\bar P W + b` and the variance
    :math:`\mathrm{diag}(W^T C W)`. In the backward pass, P gets one product,
    :math:`\frac{2}{n} (P - \bar P) W \mathrm{diag}(v) W^T` for the gradient v of the variance, to which the gradients of the
    sampled rows are added.
    """

    @staticmethod
    def forward(
        ctx: Any, p: Tensor, weight: Tensor, bias: Tensor, index: Tensor, dense: Dense
    ) -> tuple[Tensor, Tensor, Tensor]:
        middle = dense.column_sums(p, 1 / len(p))
        away = dense.centred(p, middle)
        covariance_weight = dense.covariance_weight(gram(away) / len(p), weight, p.dtype)
        variance, mean = dense.linear_moments(LinearStats(weight, covariance_weight, middle, len(p), p.dtype), bias)
        some, narrow = away.index_select(0, index), weight.to(p.dtype)
        ctx.save_for_backward(away, middle, weight, covariance_weight, some, index)
        ctx.dense = dense
        return product(some, narrow, mean), variance, mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        away, middle, weight, covariance_weight, some, index = ctx.saved_tensors
        of_rows, of_variance, of_mean = grads
        of_bias = of_mean + ctx.dense.column_sums(of_rows)
        slopes, narrow = of_rows.to(away.dtype), weight.to(away.dtype)
        stats = LinearStats(weight, covariance_weight, middle, len(away), away.dtype)
        of_weight, scaled, of_middle = ctx.dense.linear_moments_backward(
            stats, product(some.T, slopes), of_variance, of_mean, of_bias
        )
        of_p = torch.addmm(of_middle.to(away.dtype), away, scaled @ narrow.T)
        return of_p.index_add_(0, index, slopes @ narrow.T), of_weight, of_bias, None, None

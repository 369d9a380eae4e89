"""Rows that need not be formed: what a loss reads of them follows from the layer before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clnr.engine.dense import Dense, gram, inverse_deviation, product


class Affine(NamedTuple):
    r"""The rows :math:`P W + b` of a last layer, not multiplied out."""

    inputs: Tensor
    weight: Tensor
    bias: Tensor


class Some(NamedTuple):
    """Some of many rows, and how to learn variance (divisor n) and mean of each column over all of them."""

    rows: Tensor
    moments: Callable[[], tuple[Tensor, Tensor]]


Rows = Tensor | Affine
Known = Tensor | Some


def count(rows: Rows) -> int:
    """How many there are."""
    return (rows.inputs if isinstance(rows, Affine) else rows).shape[0]


def formed(rows: Rows, dense: Dense) -> Tensor:
    """All of them, multiplied out, in float32 or better."""
    z = multiplied(rows, dense)
    return z.float() if z.dtype == torch.bfloat16 else z


def multiplied(rows: Rows, dense: Dense) -> Tensor:
    """All of them, in the type of what they are made of."""
    return dense.affine(rows.inputs, rows.weight.to(rows.inputs.dtype), rows.bias) if isinstance(rows, Affine) else rows


def picked(rows: Rows, nodes: Tensor, dense: Dense) -> Tensor:
    """Those of some nodes, formed, in their order."""
    if isinstance(rows, Affine):
        return formed(rows._replace(inputs=rows.inputs.index_select(0, nodes)), dense)
    return formed(rows.index_select(0, nodes), dense)


def sampled(rows: Rows, nodes: Tensor, dense: Dense) -> Some:
    """Those of some nodes, with what all have of moments."""
    if isinstance(rows, Affine):
        z, variance, mean = _Sampled.apply(rows.inputs, rows.weight, rows.bias, nodes, dense)
        return Some(z, lambda: (variance, mean))
    return Some(picked(rows, nodes, dense), lambda: dense.column_moments(rows))


def moments(rows: Known, dense: Dense) -> tuple[Tensor, Tensor]:
    """Variance (divisor n) and mean of each column, over all rows, also of those that were not picked."""
    return rows.moments() if isinstance(rows, Some) else dense.column_moments(rows)


def known(rows: Known) -> Tensor:
    """Those that are there."""
    return rows.rows if isinstance(rows, Some) else rows


def standardize(rows: Known, dense: Dense) -> Known:
    r"""Columns to mean 0 and standard deviation 1 (divisor n): :math:`u_{ij} = (z_{ij} - \mu_j) / \sigma_j`.

    Equation 1 of the paper, with the square that its print leaves out. A column that is constant up to float rounding
    (a deviation under a millionth of its size) gives zeros, with zero gradients.
    """
    variance, mean = moments(rows, dense)
    z = dense.standardised(known(rows), variance, mean)
    return _moved(rows, z, mean, lambda: inverse_deviation(variance, mean))


def rescale(rows: Known, dense: Dense) -> Known:
    """All numbers to mean 0 and standard deviation 1 as if they stood in one column: what the authors ran for whitening."""
    variances, means = moments(rows, dense)
    mean = means.mean()
    scale = inverse_deviation((variances + (means - mean).square()).mean(), mean)
    return _moved(rows, (known(rows) - mean) * scale, mean, lambda: scale)


def _moved(rows: Known, z: Tensor, shift: Tensor, scale: Callable[[], Tensor]) -> Known:
    """Rows that became ``z``, each number less a shift and times a scale."""
    if not isinstance(rows, Some):
        return z

    def after() -> tuple[Tensor, Tensor]:
        variance, mean = rows.moments()
        return variance * scale().square(), (mean - shift) * scale()

    return Some(z, after)


class _Sampled(torch.autograd.Function):
    r"""Some rows of :math:`Z = P W + b`, and variance and mean of the columns of all, of which no other is formed.

    With :math:`\bar P` and C the mean and covariance of P, the mean is :math:`\bar P W + b` and the variance
    :math:`\mathrm{diag}(W^T C W)`. On the way back, P gets one product, :math:`\frac{2}{n} (P - \bar P) W \mathrm{diag}(v) W^T`
    for the gradient v of the variance, to which the rows' own gradients are added where they belong.
    """

    @staticmethod
    def forward(
        ctx: Any, p: Tensor, weight: Tensor, bias: Tensor, nodes: Tensor, dense: Dense
    ) -> tuple[Tensor, Tensor, Tensor]:
        middle = dense.column_sums(p, 1 / len(p))
        away = dense.centred(p, middle)
        spread = dense.spread(gram(away) / len(p), weight, p.dtype)
        variance, mean = dense.affine_moments(weight, spread, middle, bias)
        some, narrow = away.index_select(0, nodes), weight.to(p.dtype)
        ctx.save_for_backward(away, middle, weight, spread, some, nodes)
        ctx.dense = dense
        return product(some, narrow, mean), variance, mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        away, middle, weight, spread, some, nodes = ctx.saved_tensors
        of_rows, of_variance, of_mean = grads
        whole = of_mean + ctx.dense.column_sums(of_rows)
        slopes, narrow = of_rows.to(away.dtype), weight.to(away.dtype)
        of_weight, scaled, of_middle = ctx.dense.affine_back(
            weight, spread, middle, product(some.T, slopes), (of_variance, of_mean), whole, len(away), away.dtype
        )
        of_p = torch.addmm(of_middle.to(away.dtype), away, scaled @ narrow.T)
        return of_p.index_add_(0, nodes, slopes @ narrow.T), of_weight, whole, None, None

"""Rows that need not be formed: what a loss reads of them follows from the layer before."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from clnr.engine import gram


class Affine(NamedTuple):
    r"""The rows :math:`P W + b` of a last layer, not multiplied out.

    A loss over m of n rows needs those m and, where columns are standardised, each column's mean and variance over all n.
    Both follow from the inputs: the mean is :math:`\bar P W + b`, the variance :math:`\mathrm{diag}(W^T C W)` with C the
    covariance of P. So the n rows are never written, read or kept.
    """

    inputs: Tensor
    weight: Tensor
    bias: Tensor


Rows = Tensor | Affine


def count(rows: Rows) -> int:
    """How many there are."""
    return (rows.inputs if isinstance(rows, Affine) else rows).shape[0]


def formed(rows: Rows) -> Tensor:
    """All of them, multiplied out, in float32 or better."""
    if isinstance(rows, Affine):
        dtype = rows.inputs.dtype
        rows = torch.addmm(rows.bias.to(dtype), rows.inputs, rows.weight.to(dtype))
    return rows.float() if rows.dtype == torch.bfloat16 else rows


def picked(rows: Rows, nodes: Tensor) -> Tensor:
    """Those of some nodes, in their order."""
    if isinstance(rows, Affine):
        return torch.addmm(rows.bias, rows.inputs.index_select(0, nodes).to(rows.weight.dtype), rows.weight)
    return rows.index_select(0, nodes)


def moments(rows: Rows) -> tuple[Tensor, Tensor]:
    """Variance (divisor n) and mean of each column."""
    if not isinstance(rows, Affine):
        variance, mean = torch.var_mean(rows, 0, correction=0)
        return variance, mean
    covariance, mean = _Covariance.apply(rows.inputs)
    return (rows.weight * (covariance @ rows.weight)).sum(0).clamp(min=0), mean @ rows.weight + rows.bias


def scaled(rows: Rows, shift: Tensor, scale: Tensor) -> Rows:
    """Each less ``shift``, times ``scale``, both of which may differ by column."""
    if isinstance(rows, Affine):
        return rows._replace(weight=rows.weight * scale, bias=(rows.bias - shift) * scale)
    return (rows - shift) * scale


class _Covariance(torch.autograd.Function):
    """Covariance of the columns (divisor n) and their means, with one product of rows each way."""

    @staticmethod
    def forward(ctx: Any, p: Tensor) -> tuple[Tensor, Tensor]:
        mean = p.mean(0, dtype=torch.promote_types(p.dtype, torch.float32))
        centred = p - mean.to(p.dtype)
        ctx.save_for_backward(centred)
        return gram(centred) / p.shape[0], mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (centred,) = ctx.saved_tensors
        covariance, mean = (g / centred.shape[0] for g in grads)
        dtype = centred.dtype
        return torch.addmm(mean.to(dtype), centred, (covariance + covariance.T).to(dtype))

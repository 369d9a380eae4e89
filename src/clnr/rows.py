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

    Attributes:
        inputs: P, or those rows of it that are wanted.
        weight: W.
        bias: b.
        spread: Covariance and mean of all rows of P, where ``inputs`` are only some.
    """

    inputs: Tensor
    weight: Tensor
    bias: Tensor
    spread: tuple[Tensor, Tensor] | None = None


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


def picked(rows: Rows, nodes: Tensor, spread: bool = False) -> Rows:
    """Those of some nodes, in their order; unformed ones with the spread of all, if asked for."""
    if not isinstance(rows, Affine):
        return rows.index_select(0, nodes)
    if not spread:
        return rows._replace(inputs=rows.inputs.index_select(0, nodes))
    inputs, covariance, mean = _Picked.apply(rows.inputs, nodes)
    return rows._replace(inputs=inputs, spread=(covariance, mean))


def moments(rows: Rows) -> tuple[Tensor, Tensor]:
    """Variance (divisor n) and mean of each column, over all rows, also of those that were not picked."""
    if isinstance(rows, Affine):
        covariance, mean = rows.spread or _spread(rows.inputs)[:2]
        return (rows.weight * (covariance @ rows.weight)).sum(0).clamp(min=0), mean @ rows.weight + rows.bias
    # A product with a vector is a faster sum over rows than torch's on a CPU; what it is off by, the second time mends.
    share = torch.full((len(rows),), 1 / len(rows), dtype=rows.dtype, device=rows.device)
    mean = (share @ rows).detach()
    off = share @ (rows - mean)
    return (share @ (rows - mean).square() - off.square()).clamp(min=0), mean + off


def scaled(rows: Rows, shift: Tensor, scale: Tensor) -> Rows:
    """Each less ``shift``, times ``scale``, both of which may differ by column."""
    if isinstance(rows, Affine):
        return rows._replace(weight=rows.weight * scale, bias=(rows.bias - shift) * scale)
    return (rows - shift) * scale


def _spread(p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Covariance (divisor n) and mean of the columns, in float32 or better, and the rows less the mean."""
    wide = torch.promote_types(p.dtype, torch.float32)
    mean = p.mean(0, dtype=wide)
    centred = p - mean.to(p.dtype)
    return gram(centred) / p.shape[0], mean, centred


class _Picked(torch.autograd.Function):
    """Some rows, and covariance and mean of all: on the way back one product, to which those rows' gradients are added."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        covariance, mean, centred = _spread(p)
        ctx.save_for_backward(centred, nodes)
        return p.index_select(0, nodes), covariance, mean

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        centred, nodes = ctx.saved_tensors
        rows, (covariance, mean) = grads[0], (g / centred.shape[0] for g in grads[1:])
        dtype = centred.dtype
        gradient = torch.addmm(mean.to(dtype), centred, (covariance + covariance.T).to(dtype))
        return gradient.index_add_(0, nodes, rows), None

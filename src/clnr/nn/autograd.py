"""Functions with a backward pass of their own. They subclass torch's, so that this module is imported when first used."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clnr.nn.layers import prelu
from clnr.nn.newton_schulz import inverse_root_gradient, square_roots

_NUMBERS_PER_BLOCK = 1 << 25


def prelu_linear(h: Tensor, slope: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer after ``prelu``, whose output is computed again in the backward pass: half the memory."""
    return _PReLULinear.apply(h, slope, weight, bias)


class _PReLULinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, slope: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(h, slope, weight)
        return torch.addmm(bias, prelu(h, slope), weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        h, slope, weight = ctx.saved_tensors
        (g,) = grads
        of_weight = prelu(h, slope).T @ g
        back = g @ weight.T
        return torch.where(h > 0, back, slope * back), torch.where(h > 0, 0, h * back).sum(), of_weight, g.sum(0)


class InverseRoot(torch.autograd.Function):
    r"""A^{-1/2} of a positive definite matrix.

    With :math:`A = Q \mathrm{diag}(\lambda) Q^T`, the derivative in the basis Q multiplies element ij by the divided
    difference of :math:`\lambda^{-1/2}` (Daleckii and Krein, 1965), which here is
    :math:`-1 / (\sqrt{\lambda_i \lambda_j} (\sqrt{\lambda_i} + \sqrt{\lambda_j}))`: equal eigenvalues do no harm.

    On a GPU the same two matrices come from products alone (``newton_schulz``), which does not make it wait for the host.
    ``low`` bounds the eigenvalues from below, as a part of the Frobenius norm.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, low: float) -> Tensor:
        ctx.low = low if matrix.is_cuda else None
        if ctx.low is not None:
            root, inverse = square_roots(matrix, low)
            ctx.save_for_backward(root, inverse)
            return inverse
        values, q = torch.linalg.eigh(matrix)
        root = values.clamp(min=torch.finfo(values.dtype).tiny).sqrt()
        ctx.save_for_backward(q, root)
        return (q / root) @ q.T

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        symmetric = (grads[0] + grads[0].T) / 2
        if ctx.low is not None:
            root, inverse = ctx.saved_tensors
            return inverse_root_gradient(root, inverse, symmetric, ctx.low), None
        q, root = ctx.saved_tensors
        difference = -1 / (root[:, None] * root * (root[:, None] + root))
        return q @ ((q.T @ symmetric @ q) * difference) @ q.T, None


class RowDots(torch.autograd.Function):
    """Inner products of pairs of rows, block by block: the rows of all pairs are never in memory together."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, i: Tensor, j: Tensor) -> Tensor:
        ctx.save_for_backward(z, i, j)
        return torch.cat([(z[a] * z[b]).sum(1) for a, b in zip(*_blocks(z, i, j), strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        z, i, j = ctx.saved_tensors
        gradient = torch.zeros_like(z)
        for a, b, g in zip(*_blocks(z, i, j, grads[0]), strict=True):
            gradient.index_add_(0, a, g[:, None] * z[b])
            gradient.index_add_(0, b, g[:, None] * z[a])
        return gradient, None, None


def _blocks(z: Tensor, *parts: Tensor) -> list[tuple[Tensor, ...]]:
    size = max(1, _NUMBERS_PER_BLOCK // max(z.shape[1], 1))
    return [part.split(size) for part in parts]

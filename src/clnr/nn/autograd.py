"""Functions with a backward pass of their own. They subclass torch's, so that this module is imported when first used."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from clnr.nn.layers import prelu

_NUMBERS_PER_BLOCK = 1 << 25
_LARGEST_GAP = 1e-12


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

    On a GPU the same two matrices come from products alone, which, unlike eigenvectors, do not make it wait for the host.
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


def square_roots(matrix: Tensor, low: float) -> tuple[Tensor, Tensor]:
    r"""A^{1/2} and A^{-1/2} of a symmetric positive definite matrix of float64.

    Coupled Newton-Schulz iterations (Higham, "Functions of matrices", 2008, section 6.3), which begin with Y = A divided by its
    Frobenius norm and Z = I:

    .. math:: T = \tfrac{s}{2} (3 I - s^2 Z Y), \quad Y \leftarrow Y T, \quad Z \leftarrow T Z

    Their number follows from ``low`` alone, a lower bound of the eigenvalues as a part of the Frobenius norm, so that nothing
    is read back on the way.
    """
    one = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    size = matrix.norm()
    y, z = matrix / size, one
    for scale in scales(math.sqrt(low)):
        t = (3 * one - scale**2 * (z @ y)) * (scale / 2)
        y, z = y @ t, t @ z
    return y * size.sqrt(), z / size.sqrt()


def inverse_root_gradient(root: Tensor, inverse: Tensor, grad: Tensor, low: float) -> Tensor:
    r"""The gradient at A of a function of A^{-1/2}, given both roots and the symmetric gradient G at A^{-1/2}.

    It is the S of :math:`A^{1/2} S + S A^{1/2} = -A^{-1/2} G A^{-1/2}`.
    """
    # The squares of the root's eigenvalues add up to the trace of A, at most sqrt(n) times its Frobenius norm.
    return lyapunov(root, -(inverse @ grad @ inverse), math.sqrt(low / math.sqrt(len(root))))


def lyapunov(root: Tensor, right: Tensor, low: float) -> Tensor:
    r"""S with B S + S B = H, for a symmetric positive definite B: by Newton-Schulz iterations for the sign of a matrix.

    .. math:: \mathrm{sign} \begin{pmatrix} B & H \\ 0 & -B \end{pmatrix} = \begin{pmatrix} I & 2 S \\ 0 & -I \end{pmatrix}

    B is float64, and ``low`` a lower bound of its eigenvalues, as a part of its Frobenius norm.
    """
    one = torch.eye(len(root), dtype=root.dtype, device=root.device)
    size = root.norm()
    b, h = root / size, right / size
    for scale in scales(low):
        square, product = b @ b, h @ b
        h = (3 * h - scale**2 * (square @ h + product @ b - b @ product)) * (scale / 2)
        b = b @ (3 * one - scale**2 * square) * (scale / 2)
    return h / 2


def scales(low: float) -> list[float]:
    """The scale of each iteration p <- s p (3 - s^2 p^2) / 2 until all p from ``low`` to 1 are 1, in the fewest iterations.

    A scale maps ``low`` and 1 to the same number, the new ``low`` (Chen and Chow, "A stable scaling of Newton-Schulz for
    improving the sign function computation of a Hermitian matrix", 2014).
    """
    scales = []
    while 1 - low > _LARGEST_GAP:
        scale = math.sqrt(3 / (1 + low + low * low))
        scales.append(scale)
        low = scale * low * (3 - (scale * low) ** 2) / 2
    return [*scales, 1.0]


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

"""Square roots of matrices by products alone: what a GPU does without waiting for the host, as eigenvectors make it do."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LARGEST_GAP = 1e-12


def square_roots(matrix: Tensor, low: float) -> tuple[Tensor, Tensor]:
    r"""A^{1/2} and A^{-1/2} of a symmetric positive definite matrix.

    Coupled Newton-Schulz iterations (Higham, "Functions of matrices", 2008, section 6.3), which begin with Y = A divided by
    its Frobenius norm and Z = I:

    .. math:: T = \tfrac{s}{2} (3 I - s^2 Z Y), \quad Y \leftarrow Y T, \quad Z \leftarrow T Z

    Their number follows from ``low`` alone, so that nothing is read back on the way.

    Args:
        matrix: Of float64.
        low: A lower bound of the eigenvalues, as a part of the Frobenius norm.
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

    Args:
        root: B, of float64.
        right: H.
        low: A lower bound of the eigenvalues of B, as a part of its Frobenius norm.
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

"""The geometry of an embedding: alignment, uniformity and effective rank, none by an N x N matrix."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK_ROWS = 2048


def alignment(u: Tensor, v: Tensor) -> float:
    r"""Mean squared distance of positive pairs, :math:`E \lVert u - v \rVert^2` (equation 4, alpha = 2), of unit rows."""
    return float((u - v).double().square().sum(1).mean())


def uniformity(u: Tensor) -> float:
    r"""Log of the mean Gaussian potential over distinct pairs, :math:`\log E \exp(-2 \lVert x - y \rVert^2)` (equation 5).

    Of unit rows, at least two.
    """
    count = u.shape[0]
    if count < 2:
        return float("nan")
    u = u.double()
    square = u.square().sum(1)
    total = torch.zeros((), dtype=torch.float64, device=u.device)
    for begin in range(0, count, _BLOCK_ROWS):
        block = u[begin : begin + _BLOCK_ROWS]
        distance = (square[begin : begin + _BLOCK_ROWS, None] + square - 2 * block @ u.T).clamp_(min=0)
        potential = distance.mul_(-2.0).exp_()
        potential.diagonal(begin).zero_()
        total += potential.sum()
    return float((total / (count * (count - 1))).log())


def effective_rank(z: Tensor) -> float:
    r"""The exponential of the entropy of the normalised singular values (RankMe; Garrido et al., 2023).

    Singular values come from the smaller Gram matrix, summed in float64 over blocks.
    """
    if z.shape[0] < z.shape[1]:
        z = z.T
    gram = torch.zeros(z.shape[1], z.shape[1], dtype=torch.float64, device=z.device)
    for begin in range(0, z.shape[0], _BLOCK_ROWS):
        block = z[begin : begin + _BLOCK_ROWS].double()
        gram += block.T @ block
    values = torch.linalg.eigvalsh(gram).clamp_(min=0).sqrt()
    total = values.sum()
    if total == 0:
        return 0.0
    p = values / total
    return float((-torch.special.xlogy(p, p).sum()).exp())

"""Ridge regression on classes, each node predicted without itself: cross-validation at the cost of one fit."""

from __future__ import annotations

import torch
from torch import Tensor

PENALTIES = tuple(10.0**power for power in range(-3, 3))
"""Of the squared norm of weights, for rows of mean square length 1."""
_CONSTANT = 1e-9


def leave_one_out(rows: Tensor, labels: Tensor) -> Tensor:
    """Which nodes a ridge classifier predicts right that was fitted to all others; labels are 0, 1, ...

    Targets are 1 for a node's class and 0 for others; the penalty of least squared error is taken. Where H maps targets to
    predictions, the prediction without node i is off by its residual / (1 - H_ii) (Allen, "The relationship between variable
    selection and data augmentation and a method for prediction", 1974).
    """
    count = len(rows)
    x = rows.double() - rows.double().mean(0)
    x = x / x.square().sum(1).mean().sqrt().clamp(min=1e-30)
    truth = torch.nn.functional.one_hot(labels).to(x)
    centred = truth - truth.mean(0)
    squares, left = _left_vectors(x)
    targets = left.T @ centred
    best, least = truth, torch.inf
    for penalty in PENALTIES:
        kept = squares / (squares + penalty)
        alone = 1 - 1 / count - left.square() @ kept
        off = (centred - left @ (kept[:, None] * targets)) / alone[:, None]
        error = float(off.square().sum())
        if error < least:
            best, least = truth - off, error
    return best.argmax(1) == labels


def _left_vectors(x: Tensor) -> tuple[Tensor, Tensor]:
    """The squares of the singular values of a matrix that are not zero, and their left vectors."""
    wide = len(x) <= x.shape[1]
    # A GPU takes longer for a small matrix than a CPU.
    squares, vectors = (each.to(x) for each in torch.linalg.eigh((x @ x.T if wide else x.T @ x).cpu()))
    kept = squares > _CONSTANT * squares[-1]
    squares, vectors = squares[kept], vectors[:, kept]
    return squares, vectors if wide else (x @ vectors) / squares.sqrt()

"""L-BFGS for many small problems at once: each has its own step, and all share every evaluation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_HISTORY = 10
_SUFFICIENT = 1e-4
_MOST_HALVINGS = 30
_ROUNDING = 1e-7

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Values [k] and gradients [k, p] of some problems, given which of them these are, [k], and a point of each, [k, p]."""


def minimize(
    evaluate: Evaluate, start: Tensor, curvature: Tensor, tolerance: float, most_iterations: int
) -> tuple[Tensor, Tensor]:
    """The minimum of each of some convex problems, [k, p], and whether each converged (Liu and Nocedal, 1989).

    The Hessian's diagonal is about that ``curvature``, [k, p], up to a factor. A problem has converged when no number of its
    gradient is above the tolerance, and is not evaluated again. Steps are halved until the value has fallen enough (Armijo,
    1966).
    """
    points, converged = start.clone(), torch.zeros(len(start), dtype=torch.bool, device=start.device)
    which, x = torch.arange(len(start), device=start.device), start.clone()
    value, gradient = evaluate(which, x)
    moves, changes = (torch.zeros(0, *start.shape, device=start.device) for _ in range(2))
    for _ in range(most_iterations):
        done = gradient.abs().amax(1) <= tolerance
        if done.any():
            points[which[done]], converged[which[done]] = x[done], True
            which, x, value, gradient, curvature = (each[~done] for each in (which, x, value, gradient, curvature))
            moves, changes = moves[:, ~done], changes[:, ~done]
        if not len(which):
            break
        direction = -_times_inverse_hessian(gradient, curvature, moves, changes)
        slope = _dot(direction, gradient)
        # Where rounding has spoilt the history, the gradient is a direction that always descends.
        direction = torch.where((slope < 0)[:, None], direction, -gradient / curvature)
        slope, step = _dot(direction, gradient), torch.ones_like(slope)
        for _ in range(_MOST_HALVINGS):
            new_x = x + step[:, None] * direction
            new_value, new_gradient = evaluate(which, new_x)
            enough = new_value <= value + _SUFFICIENT * step * slope + _ROUNDING * value.abs()
            if enough.all():
                break
            step = torch.where(enough, step, step / 2)
        moves = torch.cat([moves, (new_x - x)[None]])[-_HISTORY:]
        changes = torch.cat([changes, (new_gradient - gradient)[None]])[-_HISTORY:]
        x, value, gradient = new_x, new_value, new_gradient
    points[which], converged[which] = x, gradient.abs().amax(1) <= tolerance
    return points, converged


def _times_inverse_hessian(gradient: Tensor, curvature: Tensor, moves: Tensor, changes: Tensor) -> Tensor:
    """The gradients times an inverse Hessian estimated from past steps and gradient changes (the two-loop recursion)."""
    q, steps = gradient.clone(), []
    # A pair that does not tell of positive curvature counts for nothing.
    products = _dot(moves, changes)
    inverse = torch.where(products > 0, 1 / products, 0)
    for move, change, rho in zip(moves.flip(0), changes.flip(0), inverse.flip(0), strict=True):
        steps.append(rho * _dot(move, q))
        q -= steps[-1][:, None] * change
    q /= curvature
    if len(moves):
        measured = _dot(changes[-1], changes[-1] / curvature)
        q *= torch.where(products[-1] > 0, products[-1] / measured.clamp(min=1e-30), 1)[:, None]
    for move, change, rho, step in zip(moves, changes, inverse, reversed(steps), strict=True):
        q += (step - rho * _dot(change, q))[:, None] * move
    return q


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)

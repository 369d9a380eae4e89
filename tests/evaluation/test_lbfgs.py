"""Many small problems at once, each beside SciPy's L-BFGS."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from scipy.optimize import minimize as scipy_minimize

from clnr.evaluation.lbfgs import minimize

SIZE = 12


def problems(count):
    """Convex functions that are not quadratic: a soft plus of some products, and a quadratic part; quite unlike in scale."""
    random = np.random.default_rng(0)
    products = torch.tensor(random.standard_normal((count, 30, SIZE)))
    scale = torch.logspace(-3, 1, count, dtype=torch.float64)

    def evaluate(which, points):
        inner = torch.einsum("knp,kp->kn", products[which], points)
        value = torch.nn.functional.softplus(inner).mean(1) + 0.5 * scale[which] * points.square().sum(1)
        slope = torch.einsum("knp,kn->kp", products[which], inner.sigmoid()) / 30 + scale[which][:, None] * points
        return value, slope

    return evaluate, scale


def test_each_minimum_is_scipys():
    evaluate, _scale = problems(7)
    start = torch.zeros(7, SIZE, dtype=torch.float64)
    points, converged = minimize(evaluate, start, torch.ones_like(start), 1e-7, 500)
    assert converged.all()
    for number in range(7):
        which = torch.tensor([number])

        def alone(x, which=which):
            value, slope = evaluate(which, torch.tensor(x)[None])
            return float(value), slope[0].numpy()

        right = scipy_minimize(alone, np.zeros(SIZE), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0})
        np.testing.assert_allclose(points[number].numpy(), right.x, atol=1e-4)


def test_those_that_converged_are_not_evaluated_again():
    evaluate, scale = problems(5)
    asked = []

    def noted(which, points):
        asked.append(which.tolist())
        return evaluate(which, points)

    start = torch.zeros(5, SIZE, dtype=torch.float64)
    minimize(noted, start, scale[:, None].expand(5, SIZE) + 0.2, 1e-6, 500)
    assert asked[0] == [0, 1, 2, 3, 4]
    assert all(set(after) <= set(before) for before, after in itertools.pairwise(asked))
    assert len(asked[-1]) < 5


def test_too_few_iterations_are_told():
    evaluate, _ = problems(3)
    start = torch.zeros(3, SIZE, dtype=torch.float64)
    points, converged = minimize(evaluate, start, torch.ones_like(start), 1e-9, 2)
    assert not converged.any()
    assert (evaluate(torch.arange(3), points)[0] < evaluate(torch.arange(3), start)[0]).all()


def test_where_nothing_is_to_be_done_the_start_is_the_minimum():
    evaluate, _ = problems(2)
    start = torch.ones(2, SIZE, dtype=torch.float64)
    points, converged = minimize(evaluate, start, torch.ones_like(start), 1e9, 500)
    assert converged.all()
    assert torch.equal(points, start)

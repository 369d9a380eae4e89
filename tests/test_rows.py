from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr.postprocess import Rescale, Standardize
from clnr.rows import Affine, count, formed, moments, picked, scaled

NODES = torch.tensor([5, 0, 5, 11])


def affine(n=12, inputs=4, width=6, seed=0):
    random = np.random.default_rng(seed)
    parts = (random.standard_normal((n, inputs)) + 1.5, random.standard_normal((inputs, width)), random.standard_normal(width))
    return Affine(*(torch.tensor(part, requires_grad=True) for part in parts))


def dense(unformed):
    return (unformed.inputs @ unformed.weight + unformed.bias).detach().numpy()


@pytest.mark.parametrize("shape", [(12, 4, 6), (1, 3, 2), (300, 5, 5), (7, 1, 1)])
def test_what_is_read_of_unformed_rows_is_what_the_rows_have(shape):
    unformed = affine(*shape)
    z = dense(unformed)
    nodes = torch.tensor([0, shape[0] - 1])
    assert count(unformed) == count(formed(unformed)) == shape[0]
    np.testing.assert_allclose(formed(unformed).detach(), z)
    for spread in (False, True):
        np.testing.assert_allclose(formed(picked(unformed, nodes, spread)).detach(), z[nodes])
    for either in (unformed, picked(unformed, nodes, spread=True)):
        for got, expected in zip(moments(either), (z.var(0), z.mean(0)), strict=True):
            np.testing.assert_allclose(got.detach(), expected, atol=1e-12)
    shift, scale = torch.arange(1.0, shape[2] + 1), torch.linspace(0.5, 2, shape[2])
    moved = scaled(unformed, shift, scale)
    assert isinstance(moved, Affine)
    np.testing.assert_allclose(formed(moved).detach(), (z - shift.numpy()) * scale.numpy())


def test_formed_rows_are_themselves():
    z = torch.randn(5, 3)
    assert formed(z) is z
    assert torch.equal(picked(z, torch.tensor([4, 1])), z[[4, 1]])
    for got, expected in zip(moments(z), (z.var(0, correction=0), z.mean(0)), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("part", [Standardize(), Rescale()], ids=["standardise", "rescale"])
def test_gradients_are_those_of_differences_and_of_formed_rows(part):
    unformed = affine()
    left = torch.randn(len(NODES), 6, dtype=torch.float64)

    def late(*parts):
        return (formed(part.unformed({}, picked(Affine(*parts), NODES, spread=True))) * left).sum()

    def early(*parts):
        return (part({}, formed(Affine(*parts)))[NODES] * left).sum()

    parts = unformed[:3]
    assert isinstance(part.unformed({}, unformed), Affine)
    assert torch.autograd.gradcheck(late, parts)
    torch.testing.assert_close(late(*parts), early(*parts))
    one, other = (torch.autograd.grad(loss(*parts), parts) for loss in (late, early))
    torch.testing.assert_close(one, other)


def test_a_constant_column_is_zero_also_where_it_is_not_formed():
    p = torch.ones(50, 3) * 7.3
    p[:, 0] = torch.linspace(-1, 1, 50)
    weight = torch.tensor([[1.0, 0.0], [0.3, 0.4], [0.1, 2.0]], requires_grad=True)
    z = formed(Standardize().unformed({}, picked(Affine(p, weight, torch.zeros(2)), torch.arange(50), spread=True)))
    torch.testing.assert_close(z[:, 0], p[:, 0] / p[:, 0].std(correction=0))
    assert (z[:, 1] == 0).all()
    z.sum().backward()
    assert weight.grad.isfinite().all()

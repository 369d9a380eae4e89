from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr.objectives import unit_rows
from clnr.postprocess import standardize
from tests import oracles


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (50, 7)])
def test_standardize_is_equation_one(shape):
    z = np.random.default_rng(0).standard_normal(shape) * 3 + 5
    np.testing.assert_allclose(standardize(torch.tensor(z)).numpy(), oracles.standardize(z), atol=1e-12)


def test_gradient_of_standardize():
    z = torch.tensor(np.random.default_rng(1).standard_normal((9, 4)), requires_grad=True)
    assert torch.autograd.gradcheck(standardize, (z,))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e-20, 1e12, 0.1])
def test_a_constant_column_gives_zeros_with_zero_gradients(value):
    z = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    z[:, 1] = value
    z.requires_grad_()
    u = standardize(z)
    assert not u[:, 1].any()
    (u * torch.arange(1000)[:, None]).sum().backward()
    assert z.grad.isfinite().all()
    assert not z.grad[:, 1].any()
    assert z.grad[:, 0].any()


def test_a_small_but_real_spread_is_kept():
    z = 1 + 1e-4 * torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    assert float(standardize(z).std(correction=0)) == pytest.approx(1, rel=1e-3)


def test_the_divisor_does_not_matter_after_rows_are_normalised():
    z = torch.tensor(np.random.default_rng(2).standard_normal((6, 4)))
    unbiased = (z - z.mean(0)) / z.std(0)
    torch.testing.assert_close(unit_rows(standardize(z)), unit_rows(unbiased))


def test_scale_and_shift_of_columns_do_not_matter():
    z = torch.tensor(np.random.default_rng(3).standard_normal((30, 4)))
    torch.testing.assert_close(standardize(z * torch.tensor([1.0, 10.0, 0.1, 1e3]) + 7), standardize(z))

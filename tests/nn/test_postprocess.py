import numpy as np
import pytest
import torch

from clnr import rng
from clnr.nn.postprocess import Head, Rescale, ShortcutHead, Standardize, whiten
from tests import oracles


def standardize(z):
    return Standardize()({}, z)


def rescale(z):
    return Rescale()({}, z)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def mixed(rows, columns, seed=0):
    """Correlated columns of different sizes, off centre."""
    return numbers(rows, columns, seed=seed) @ numbers(columns, columns, seed=seed + 1) * np.arange(1, columns + 1) + 7


def isotropic(width):
    """Rows whose covariance is a multiple of I to the bit: each unit vector and its opposite."""
    return np.concatenate([np.eye(width), -np.eye(width)])


@pytest.mark.parametrize(("part", "oracle"), [(standardize, oracles.standardize), (rescale, oracles.rescale)])
@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (50, 7)])
def test_columns_are_standardised_by_equation_one_and_rescaled_together(shape, part, oracle):
    z = mixed(*shape)
    np.testing.assert_allclose(part(torch.tensor(z)).numpy(), oracle(z), atol=1e-12)


@pytest.mark.parametrize("part", [standardize, rescale])
def test_gradients_equal_differences(part):
    assert torch.autograd.gradcheck(part, (torch.tensor(mixed(9, 4), requires_grad=True),))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e-20, 1e12, 0.1])
def test_what_is_constant_gives_zeros_with_zero_gradients(value):
    """A column that is standardised, and an input that is rescaled."""
    z = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    z[:, 1] = value
    whole = torch.full((1000, 3), value)
    for part, given, constant in ((standardize, z, [1]), (rescale, whole, [0, 1, 2])):
        given.requires_grad_()
        u = part(given)
        assert not u[:, constant].any()
        (u * torch.arange(1000)[:, None]).sum().backward()
        assert given.grad.isfinite().all()
        assert not given.grad[:, constant].any()
    assert z.grad[:, 0].any()


def test_a_small_but_real_spread_is_kept():
    z = 1 + 1e-4 * torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    assert float(standardize(z).std(correction=0)) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("shape", [(2, 1), (30, 4), (100, 30), (5, 8), (4, 4)])
def test_whiten_equals_singular_values(shape):
    z = mixed(*shape)
    np.testing.assert_allclose(whiten(torch.tensor(z)).numpy(), oracles.whiten(z), atol=1e-8)
    np.testing.assert_allclose(whiten(torch.tensor(z, dtype=torch.float32)).numpy(), oracles.whiten(z), atol=2e-3)


@pytest.mark.parametrize(
    "z",
    [
        mixed(9, 3),
        mixed(3, 5),
        isotropic(3),
        isotropic(3) * [1.0, 1.0, 2.0],
        np.repeat(numbers(6, 1), 3, axis=1),
        np.concatenate([numbers(6, 2), np.full((6, 1), 0.5)], 1),
        numbers(2, 3),
    ],
    ids=["full rank", "wide", "equal variances", "two equal", "rank one", "constant column", "two rows"],
)
def test_gradient_of_whiten(z):
    z = torch.tensor(z, requires_grad=True)
    assert torch.autograd.gradcheck(whiten, (z,), eps=1e-7, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "z",
    [
        np.repeat(numbers(50, 2), 4, axis=1),
        np.concatenate([numbers(50, 3), np.full((50, 2), 0.1)], 1),
        np.zeros((10, 4)),
        np.ones((10, 4)),
        numbers(1, 4),
        numbers(2, 4),
        numbers(8, 200),
        numbers(20, 4) * 1e-12,
        numbers(20, 4) * 1e12,
        numbers(20, 4) * [1e-6, 1, 1e3, 1e6],
    ],
    ids=["rank 2 of 8", "constants", "zeros", "ones", "one row", "two rows", "wide", "tiny", "huge", "uneven"],
)
def test_whiten_is_finite_at_any_rank(z, dtype):
    z = torch.tensor(z, dtype=dtype, requires_grad=True)
    u = whiten(z)
    (u * torch.tensor(numbers(*z.shape, seed=9), dtype=dtype)).sum().backward()
    assert u.isfinite().all()
    assert z.grad.isfinite().all()
    assert u.detach().square().mean(0).max() <= 1 + 1e-4
    if not (z - z[0]).any():
        assert not u.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, -3.7, 1e7 / 3, 1e12])
def test_a_constant_column_is_whitened_to_zeros_and_leaves_the_others_alone(value, dtype):
    z = torch.tensor(mixed(1000, 4), dtype=dtype)
    z[:, 1] = 0
    expected = oracles.whiten(z.double().numpy())
    z[:, 1] = value
    z.requires_grad_()
    u = whiten(z)
    np.testing.assert_allclose(u.detach().numpy(), expected, atol=1e-5 if dtype == torch.float32 else 1e-9)
    assert u[:, 1].abs().max() < 1e-12
    (u * torch.arange(len(z))[:, None]).sum().backward()
    assert z.grad.isfinite().all()
    assert z.grad[:, 0].any()


@pytest.mark.parametrize(("head_width", "hidden"), [(0, 10), (3, 3), (16, 16)])
def test_head_is_a_perceptron_with_elu(head_width, hidden):
    parameters = Head(head_width).init(5, rng.key(0, "head"))
    assert [tuple(value.shape) for value in parameters.values()] == [(5, hidden), (hidden,), (hidden, 5), (5,)]
    parameters = {name: value.double() + 0.1 for name, value in parameters.items()}
    z = torch.tensor(numbers(7, 5))
    expected = oracles.perceptron(z.numpy(), *(value.numpy() for value in parameters.values()), oracles.elu)
    np.testing.assert_allclose(Head(head_width)(parameters, z).numpy(), expected, atol=1e-12)


def test_shortcut_head_is_three_layers_with_prelu_beside_a_linear_map():
    drawn = ShortcutHead().init(5, rng.key(0, "head"))
    layers = [f"deep.{layer}" for layer in range(3)]
    shapes = {f"{layer}.slope": () for layer in layers}
    for place in (*layers, "shortcut.0"):
        shapes |= {f"{place}.weight": (5, 5), f"{place}.bias": (5,)}
    assert {name: tuple(value.shape) for name, value in drawn.items()} == shapes
    parameters = {name: value.double() + 0.1 * i for i, (name, value) in enumerate(drawn.items())}
    p = {name: value.numpy() for name, value in parameters.items()}
    z = numbers(7, 5)
    h = z
    for layer in layers:
        slope = float(p[f"{layer}.slope"])
        h = oracles.linear(h, p[f"{layer}.weight"], p[f"{layer}.bias"])
        h = np.array([[oracles.leaky(value, slope) for value in row] for row in h])
    expected = h + oracles.linear(z, p["shortcut.0.weight"], p["shortcut.0.bias"])
    np.testing.assert_allclose(ShortcutHead()(parameters, torch.tensor(z)).numpy(), expected, atol=1e-12)

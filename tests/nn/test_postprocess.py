from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import unit_rows
from clnr.nn.postprocess import (
    FLOOR,
    Head,
    Rescale,
    ShortcutHead,
    Standardize,
    Whiten,
    inverse_root,
    whiten,
)
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


@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (50, 7)])
def test_rescale_is_one_standardised_column(shape):
    z = mixed(*shape)
    np.testing.assert_allclose(rescale(torch.tensor(z)).numpy(), oracles.rescale(z), atol=1e-12)


def test_rescale_keeps_directions_between_rows():
    z = torch.tensor(mixed(20, 4))
    u = rescale(z)
    torch.testing.assert_close((u[1:] - u[0]) * z.std(correction=0), z[1:] - z[0])
    torch.testing.assert_close(rescale(3 * z + 1), u)


def test_gradient_of_rescale():
    assert torch.autograd.gradcheck(rescale, (torch.tensor(mixed(6, 3), requires_grad=True),))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e12, 0.1])
def test_a_constant_input_is_rescaled_to_zeros_with_zero_gradients(value):
    z = torch.full((1000, 3), value, requires_grad=True)
    u = rescale(z)
    (u * torch.arange(1000)[:, None]).sum().backward()
    assert not u.any()
    assert not z.grad.any()


@pytest.mark.parametrize("shape", [(2, 1), (30, 4), (100, 30), (5, 8), (4, 4)])
def test_whiten_equals_singular_values(shape):
    z = mixed(*shape)
    np.testing.assert_allclose(whiten(torch.tensor(z)).numpy(), oracles.whiten(z), atol=1e-8)
    np.testing.assert_allclose(whiten(torch.tensor(z, dtype=torch.float32)).numpy(), oracles.whiten(z), atol=2e-3)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_whitened_columns_are_centred_and_uncorrelated_up_to_the_floor(dtype, close):
    z = torch.tensor(mixed(400, 6), dtype=dtype)
    u = whiten(z)
    assert u.dtype == dtype
    u = u.double()
    variances = torch.linalg.eigvalsh(torch.cov(z.double().T, correction=0))
    floor = FLOOR * variances.mean()
    assert FLOOR == 1e-5
    assert u.mean(0).abs().max() < close
    covariance = u.T @ u / 400
    torch.testing.assert_close(torch.linalg.eigvalsh(covariance), variances / (variances + floor), atol=close, rtol=0)


def test_data_of_full_rank_get_the_identity_for_a_covariance():
    u = whiten(torch.tensor(numbers(500, 5)))
    torch.testing.assert_close(u.T @ u / 500, torch.eye(5, dtype=torch.float64), atol=2e-5, rtol=0)


def test_whitening_is_the_symmetric_map():
    """Of all maps to covariance I it alone is symmetric; it leaves isotropic data as they are but for their size."""
    z = torch.tensor(mixed(300, 5))
    centred = z - z.mean(0)
    matrix = torch.linalg.lstsq(centred, whiten(z)).solution
    torch.testing.assert_close(matrix, matrix.T, atol=1e-9, rtol=0)
    assert (torch.linalg.eigvalsh(matrix) > 0).all()
    same = torch.tensor(isotropic(4))
    torch.testing.assert_close(whiten(same), 2 * same / (1 + FLOOR) ** 0.5)


def test_whitening_commutes_with_rotations_and_ignores_shift_and_scale():
    z = torch.tensor(mixed(60, 4))
    q = torch.tensor(np.linalg.qr(numbers(4, 4))[0])
    torch.testing.assert_close(whiten(z @ q), whiten(z) @ q)
    torch.testing.assert_close(whiten(1e3 * z - 5), whiten(z))
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(whiten(z[order]), whiten(z)[order])


def test_uncorrelated_columns_are_whitened_as_they_are_standardised():
    z = torch.tensor(isotropic(3) * [1.0, 2.0, 0.5] + 4)
    torch.testing.assert_close(whiten(z), standardize(z), rtol=1e-4, atol=1e-12)


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


def gradient_of(u, z):
    (u * torch.arange(len(z))[:, None]).sum().backward()
    return z.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, -3.7, 1e12])
def test_a_constant_input_is_whitened_to_zeros_with_finite_gradients(value, dtype):
    z = torch.full((1000, 3), value, dtype=dtype, requires_grad=True)
    u = whiten(z)
    assert not u.any()
    assert gradient_of(u, z).isfinite().all()


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
    assert gradient_of(u, z).isfinite().all()
    assert z.grad[:, 0].any()


def test_directions_in_which_rows_do_not_vary_stay_small():
    z = torch.tensor(np.repeat(numbers(50, 1), 2, axis=1)) + torch.tensor([1.0, -1.0])
    u = whiten(z)
    assert (u @ torch.tensor([1.0, -1.0], dtype=torch.float64)).abs().max() < 1e-9
    assert float((u @ torch.tensor([0.5, 0.5], dtype=torch.float64)).square().mean()) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("values", [[1.0, 4.0, 9.0], [2.0, 2.0, 2.0], [1e-4, 1.0, 1e4]])
def test_inverse_root(values):
    q = np.linalg.qr(numbers(3, 3))[0]
    matrix = torch.tensor(q @ np.diag(values) @ q.T)
    matrix = (matrix + matrix.T) / 2
    np.testing.assert_allclose(inverse_root(matrix).numpy(), q @ np.diag(np.array(values) ** -0.5) @ q.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("values", [[1.0, 4.0, 9.0], [2.0, 2.0, 2.0], [1.0, 1.0, 5.0]])
def test_gradient_of_inverse_root(values):
    q = np.linalg.qr(numbers(3, 3))[0]
    matrix = torch.tensor(q @ np.diag(values) @ q.T, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: inverse_root((a + a.T) / 2), (matrix,))


@pytest.mark.parametrize(("head_width", "hidden"), [(0, 10), (3, 3), (16, 16)])
def test_head_is_a_perceptron_with_elu(head_width, hidden):
    parameters = Head(head_width).init(5, rng.key(0, "head"))
    assert [tuple(value.shape) for value in parameters.values()] == [(5, hidden), (hidden,), (hidden, 5), (5,)]
    parameters = {name: value.double() + 0.1 for name, value in parameters.items()}
    z = torch.tensor(numbers(7, 5))
    expected = oracles.perceptron(z.numpy(), *(value.numpy() for value in parameters.values()), oracles.elu)
    np.testing.assert_allclose(Head(head_width)(parameters, z).numpy(), expected, atol=1e-12)


def test_gradient_of_head():
    names, weights = zip(*Head(3).init(2, rng.key(0, "head")).items(), strict=True)
    weights = [weight.double().requires_grad_() for weight in weights]
    z = torch.tensor(numbers(4, 2), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, *all: Head(3)(dict(zip(names, all, strict=True)), z), (z, *weights))


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


def test_no_two_matrices_of_a_shortcut_head_are_the_same():
    weights = [value for name, value in ShortcutHead().init(5, rng.key(0)).items() if name.endswith("weight")]
    assert all(not torch.equal(a, b) for a, b in itertools.combinations(weights, 2))


def test_gradient_of_shortcut_head():
    names, weights = zip(*ShortcutHead().init(2, rng.key(0, "head")).items(), strict=True)
    weights = [weight.double().requires_grad_() for weight in weights]
    z = torch.tensor(numbers(4, 2), requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, *all: ShortcutHead()(dict(zip(names, all, strict=True)), z), (z, *weights))


def test_parts_are_their_functions_and_only_a_head_learns():
    z = torch.tensor(mixed(20, 3))
    for part, function in ((Standardize(), standardize), (Rescale(), rescale), (Whiten(), whiten)):
        assert part.init(3, rng.key(0)) == {}
        assert torch.equal(part({}, z), function(z))
        assert not part.head
    assert Head.head
    assert ShortcutHead.head

import pytest
import torch

from clnr.engine import products
from clnr.engine.dense import PLAIN


@pytest.mark.parametrize("width", [1, 2, 255, 256, 257, 512, 600])
def test_the_half_of_a_gram_matrix_is_the_whole(width):
    p = torch.randn(33, width, dtype=torch.float64)
    torch.testing.assert_close(products.gram(p), p.T @ p)
    assert torch.equal(products.gram(p), products.gram(p).T) or width < 256


# What torch rounds a product of bfloat16 by on a CPU.
ROUNDED = {"rtol": 2**-8, "atol": 1e-5}


def test_sums_and_products_of_bfloat16_are_float32():
    p = torch.randn(1000, 8).bfloat16()
    for got, expected, within in (
        (products.gram(p), p.float().T @ p.float(), ROUNDED),
        (products.product(p.T, p), p.float().T @ p.float(), ROUNDED),
        (PLAIN.column_sums(p), p.float().sum(0), {}),
    ):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, expected, **within)


@pytest.mark.parametrize("width", [8, 300])
def test_what_is_added_to_a_product_of_bfloat16_is_not_rounded(width):
    a, b, bias = torch.randn(20, 30).bfloat16(), torch.randn(30, width).bfloat16(), torch.randn(width) * 1e3
    assert torch.equal(products.product(a, b, bias), products.product(a, b) + bias)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (40, 5)])
def test_moments_of_columns(shape):
    z = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    variance, mean = PLAIN.column_moments(z)
    torch.testing.assert_close(variance, z.var(0, correction=0))
    torch.testing.assert_close(mean, z.mean(0))
    assert torch.autograd.gradcheck(PLAIN.column_moments, (z,))


def test_moments_of_columns_far_from_zero():
    z = torch.randn(5000, 3, generator=torch.Generator().manual_seed(0)) * 1e-3 + 100
    variance, mean = PLAIN.column_moments(z)
    torch.testing.assert_close(variance, z.double().var(0, correction=0).float(), rtol=1e-3, atol=0)
    torch.testing.assert_close(mean, z.double().mean(0).float(), rtol=1e-7, atol=0)

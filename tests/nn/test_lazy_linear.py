from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr.engine.dense import PLAIN
from clnr.engine.triton_dense import KernelDense
from clnr.nn.lazy_linear import Affine, Some, count, formed, known, moments, picked, sampled
from clnr.nn.postprocess import Rescale, Standardize

NODES = torch.tensor([5, 0, 5, 11])


def affine(n=12, inputs=4, width=6, seed=0, dtype=torch.float64):
    random = np.random.default_rng(seed)
    parts = (random.standard_normal((n, inputs)) + 1.5, random.standard_normal((inputs, width)), random.standard_normal(width))
    return Affine(*(torch.tensor(part, requires_grad=True, dtype=dtype) for part in parts))


def multiplied(unformed):
    return (unformed.inputs @ unformed.weight + unformed.bias).detach().numpy()


@pytest.mark.parametrize("shape", [(12, 4, 6), (1, 3, 2), (300, 5, 5), (7, 1, 1)])
def test_what_is_read_of_unformed_rows_is_what_the_rows_have(shape):
    unformed = affine(*shape)
    z = multiplied(unformed)
    nodes = torch.tensor([0, shape[0] - 1])
    assert count(unformed) == count(formed(unformed, PLAIN)) == shape[0]
    np.testing.assert_allclose(formed(unformed, PLAIN).detach(), z)
    np.testing.assert_allclose(picked(unformed, nodes, PLAIN).detach(), z[nodes])
    for rows in (unformed, formed(unformed, PLAIN)):
        some = sampled(rows, nodes, PLAIN)
        np.testing.assert_allclose(known(some).detach(), z[nodes])
        for either in (some, formed(rows, PLAIN)):
            for got, expected in zip(moments(either, PLAIN), (z.var(0), z.mean(0)), strict=True):
                np.testing.assert_allclose(got.detach(), expected, atol=1e-12)


def test_formed_rows_are_themselves():
    z = torch.randn(5, 3)
    assert formed(z, PLAIN) is z
    assert known(z) is z
    assert torch.equal(picked(z, torch.tensor([4, 1]), PLAIN), z[[4, 1]])


PARTS = pytest.mark.parametrize("part", [Standardize(), Rescale()], ids=["standardise", "rescale"])


def late(part, parts, left, dense=PLAIN):
    return (known(part.sampled({}, sampled(Affine(*parts), NODES, dense), dense)) * left).sum()


def early(part, parts, left):
    return (part({}, formed(Affine(*parts), PLAIN))[NODES] * left).sum()


@PARTS
def test_gradients_are_those_of_differences_and_of_formed_rows(part):
    parts, left = tuple(affine()), torch.randn(len(NODES), 6, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *parts: late(part, parts, left), parts)
    torch.testing.assert_close(late(part, parts, left), early(part, parts, left))
    one, other = (torch.autograd.grad(loss(part, parts, left), parts) for loss in (late, early))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
@pytest.mark.parametrize("shape", [(12, 4, 6), (300, 33, 40), (40, 16, 1100)])
def test_kernels_give_what_formed_rows_give_in_float64(shape, dtype):
    kernels = pytest.importorskip("clnr.engine.triton", reason="Triton is not installed")
    if torch.cuda.is_available():
        pytest.skip("kernels are interpreted only where there is no GPU")
    inputs, weight, bias = affine(*shape, dtype=torch.float32)
    parts = (inputs.detach().to(dtype).requires_grad_(), weight, bias)
    exact = [part.detach().double().requires_grad_() for part in parts]
    left = torch.randn(len(NODES), shape[2], dtype=torch.float64)
    loss = late(Standardize(), parts, left.float(), KernelDense(kernels))
    loss.backward()
    expected = early(Standardize(), exact, left)
    expected.backward()
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(loss.double(), expected, rtol=tolerance, atol=tolerance * float(left.norm()))
    for got, wanted in zip(parts[:2], exact[:2], strict=True):
        size = float(wanted.grad.abs().max())
        torch.testing.assert_close(got.grad.double(), wanted.grad, rtol=tolerance, atol=tolerance * size)


@PARTS
def test_moments_are_still_those_of_all_after_a_stage(part):
    """So that one such stage may follow another."""
    unformed = affine()
    some = part.sampled({}, sampled(unformed, NODES, PLAIN), PLAIN)
    whole = part({}, formed(unformed, PLAIN))
    assert isinstance(some, Some)
    for got, expected in zip(moments(some, PLAIN), (whole.var(0, correction=0), whole.mean(0)), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(known(Rescale().sampled({}, some, PLAIN)), Rescale()({}, whole)[NODES])


def test_a_constant_column_is_zero_also_where_it_is_not_formed():
    p = torch.ones(50, 3) * 7.3
    p[:, 0] = torch.linspace(-1, 1, 50)
    weight = torch.tensor([[1.0, 0.0], [0.3, 0.4], [0.1, 2.0]], requires_grad=True)
    z = known(Standardize().sampled({}, sampled(Affine(p, weight, torch.zeros(2)), torch.arange(50), PLAIN), PLAIN))
    torch.testing.assert_close(z[:, 0], p[:, 0] / p[:, 0].std(correction=0))
    assert (z[:, 1] == 0).all()
    z.sum().backward()
    assert weight.grad.isfinite().all()

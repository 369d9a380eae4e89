import numpy as np
import pytest
import torch

from clnr.engine.dense import PLAIN, Dense
from clnr.engine.gpu.triton_dense import KernelDense
from clnr.nn.lazy_linear import LazyLinear
from clnr.nn.postprocess import Rescale, Standardize

NODES = torch.tensor([5, 0, 5, 11])


def layer(n=12, inputs=4, width=6, seed=0, dtype=torch.float64):
    """P, W and b."""
    random = np.random.default_rng(seed)
    parts = (random.standard_normal((n, inputs)) + 1.5, random.standard_normal((inputs, width)), random.standard_normal(width))
    return [torch.tensor(part, requires_grad=True, dtype=dtype) for part in parts]


def multiplied(inputs, weight, bias):
    return (inputs @ weight + bias).detach()


@pytest.mark.parametrize("moments_first", [False, True])
@pytest.mark.parametrize("shape", [(12, 4, 6), (1, 3, 2), (300, 5, 5), (7, 1, 1)])
def test_lazy_rows_are_the_rows(shape, moments_first):
    parts = layer(*shape)
    z = multiplied(*parts).numpy()
    nodes = torch.tensor([0, shape[0] - 1])
    for make in (lambda: LazyLinear(*parts), lambda: LazyLinear(multiplied(*parts))):
        assert len(make()) == shape[0]
        assert len(make().rows(nodes)) == 2
        for rows, expected in ((make(), z), (make().rows(nodes), z[nodes]), (make().rows(nodes).rows(nodes[:1]), z[:1])):
            if moments_first:
                rows.column_moments()
            np.testing.assert_allclose(rows.materialize().detach(), expected)
            for got, of_all in zip(rows.column_moments(), (z.var(0), z.mean(0)), strict=True):
                np.testing.assert_allclose(got.detach(), of_all, atol=1e-12)
            assert rows.materialize() is rows.materialize()
            assert rows.column_moments() is rows.column_moments()


class Counting(Dense):
    """Plain, and notes of how many rows each linear layer was."""

    def __init__(self):
        self.rows = []

    def linear(self, p, weight, bias):
        self.rows.append(len(p))
        return super().linear(p, weight, bias)

    def sample_linear(self, p, weight, bias, index):
        self.rows.append(len(index))
        return super().sample_linear(p, weight, bias, index)


def test_only_rows_that_are_asked_for_are_computed_and_once():
    dense = Counting()
    rows = LazyLinear(*layer(), dense)
    assert not dense.rows
    some = rows.rows(NODES)
    some.column_moments()
    some.materialize()
    Standardize().apply({}, some).materialize()
    assert dense.rows == [4]
    rows.rows(NODES[:2]).materialize()
    rows.column_moments()
    rows.materialize()
    assert dense.rows == [4, 2, 12]


def test_rows_in_bfloat16_become_float32():
    z = torch.randn(5, 3).bfloat16()
    rows = LazyLinear(z).materialize()
    assert rows.dtype == torch.float32
    assert torch.equal(rows, z.float())


PARTS = pytest.mark.parametrize("part", [Standardize(), Rescale()], ids=["standardise", "rescale"])


def late(part, parts, left, dense=PLAIN):
    return (part.apply({}, LazyLinear(*parts, dense).rows(NODES)).materialize() * left).sum()


def early(part, parts, left):
    return (part({}, LazyLinear(*parts).materialize())[NODES] * left).sum()


@PARTS
def test_gradients_are_those_of_differences_and_of_all_rows(part):
    parts, left = tuple(layer()), torch.randn(len(NODES), 6, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *parts: late(part, parts, left), parts)
    torch.testing.assert_close(late(part, parts, left), early(part, parts, left))
    one, other = (torch.autograd.grad(loss(part, parts, left), parts) for loss in (late, early))
    torch.testing.assert_close(one, other)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(12, 4, 6), (300, 33, 40), (40, 16, 1100)])
def test_kernels_give_what_all_rows_give_in_float64(shape, dtype):
    kernels = pytest.importorskip("clnr.engine.gpu.triton", reason="Triton is not installed")
    if torch.cuda.is_available():
        pytest.skip("kernels are interpreted only where there is no GPU")
    inputs, weight, bias = layer(*shape, dtype=torch.float32)
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
    parts = layer()
    some = part.apply({}, LazyLinear(*parts).rows(NODES))
    whole = part({}, multiplied(*parts))
    for got, expected in zip(some.column_moments(), (whole.var(0, correction=0), whole.mean(0)), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(Rescale().apply({}, some).materialize(), Rescale()({}, whole)[NODES])
    torch.testing.assert_close(Rescale().apply({}, some.rows(torch.tensor([1]))).materialize(), Rescale()({}, whole)[:1])


def test_a_constant_column_is_zero_also_where_it_is_not_computed():
    p = torch.ones(50, 3) * 7.3
    p[:, 0] = torch.linspace(-1, 1, 50)
    weight = torch.tensor([[1.0, 0.0], [0.3, 0.4], [0.1, 2.0]], requires_grad=True)
    z = Standardize().apply({}, LazyLinear(p, weight, torch.zeros(2)).rows(torch.arange(50))).materialize()
    torch.testing.assert_close(z[:, 0], p[:, 0] / p[:, 0].std(correction=0))
    assert (z[:, 1] == 0).all()
    z.sum().backward()
    assert weight.grad.isfinite().all()

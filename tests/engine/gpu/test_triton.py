import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.engine import Drop, Mask
from clnr.engine.gpu.triton_dense import KernelDense
from tests.cases import pairs
from tests.engine.conftest import random

kernels = pytest.importorskip("clnr.engine.gpu.triton", reason="Triton is not installed")
fused_ntxent = pytest.importorskip("clnr.engine.gpu.triton.fused_ntxent", reason="Triton is not installed")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KEY = rng.key(5, "train")
EPOCH = 41


def put(array, dtype=torch.float32):
    return torch.tensor(np.asarray(array), dtype=dtype, device=DEVICE)


def near(got, expected, dtype=torch.float32, scale=1.0):
    """Whether numbers agree as well as their type lets them."""
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 2e-2}[dtype] * scale
    np.testing.assert_allclose(got.detach().cpu().double().numpy(), expected, rtol=tolerance, atol=tolerance)


def rounded(array, dtype):
    """An array as a type holds it."""
    return put(array, dtype).cpu().double().numpy()


def matrix(rows, columns, hub=0, long=0, mean=4, seed=0):
    """A random matrix with rows of many lengths, an empty one and some of the diagonal, as compressed rows of SciPy."""
    generator = np.random.default_rng(seed)
    there = generator.random((rows, columns)) < mean / columns
    np.fill_diagonal(there, generator.random(min(rows, columns)) < 0.5)
    if hub:
        there[rows // 2] = np.arange(columns) < hub
    if long:
        there[rows // 3] = np.arange(columns) < long
    if rows > 2:
        there[1] = False
    return sp.csr_array(there * (generator.random((rows, columns)) + 0.5))


MATRICES = {
    "one row": sp.csr_array(np.array([[2.0]])),
    "no entries": sp.csr_array((5, 3)),
    "usual": matrix(21, 21),
    "oblong": matrix(9, 40, long=35),
    "hub": matrix(6, 600, hub=560, long=100),
}


def compressed(a, weighted=True):
    values = put(a.data) if weighted else None
    return kernels.prepare(put(a.indptr, torch.int64), put(a.indices, torch.int64), values, a.shape)


def kept(a, drop):
    """Which entries of a dense matrix a rule keeps, by ``rng`` itself."""
    rows, columns = (torch.tensor(index) for index in np.indices(a.shape))
    key = drop.key
    if key.word is not None:
        key = rng.branch(rng.Key(key.a, key.b), int(key.word))
    return ((rows == columns) | (rng.draw(key, columns, rows) >= rng.threshold(drop.rate))).numpy()


def word():
    return torch.tensor([EPOCH], device=DEVICE)


SOME = Drop(KEY, 0.4)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 7, 16, 33, 128, 130])
@pytest.mark.parametrize("name", ["usual", "hub"])
def test_products_of_every_width(name, width, dtype):
    a, rule = MATRICES[name], SOME
    h = rounded(random(a.shape[1], width), dtype)
    right = random(a.shape[1], seed=3)
    got = kernels.multiply(kernels.drop_entries(compressed(a), rule)[0], put(h, dtype), right=put(right))
    assert got.dtype == dtype
    near(got, (a.toarray() * kept(a, rule)) @ (right[:, None] * h), dtype, scale=5)


@pytest.mark.parametrize("name", ["no entries", "oblong", "hub"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("parts", ["l", "r", "b", "m", "lrbm"])
def test_what_is_done_before_and_after_the_sum(name, relu, parts):
    a = MATRICES[name]
    (rows, columns), width = a.shape, 7
    h, left, right = random(columns, width), random(rows, seed=3), random(columns, seed=4)
    bias, mask = random(width, seed=5), random(rows, width, seed=6)
    expected = (np.maximum(h, 0) if relu else h) * (right[:, None] if "r" in parts else 1)
    expected = a.toarray() @ expected * (left[:, None] if "l" in parts else 1) + (bias if "b" in parts else 0)
    given = {
        "left": put(left) if "l" in parts else None,
        "right": put(right) if "r" in parts else None,
        "bias": put(bias) if "b" in parts else None,
        "mask": put(mask, torch.bfloat16) if "m" in parts else None,
    }
    got = kernels.multiply(compressed(a), put(h), relu=relu, **given)
    near(got, expected * (mask > 0) if "m" in parts else expected, scale=5)


def test_no_rows_or_no_columns_give_an_empty_product():
    nothing = kernels.prepare(put([0], torch.int64), put([], torch.int64), None, (0, 4))
    assert kernels.multiply(nothing, put(random(4, 3))).shape == (0, 3)
    assert kernels.drop_entries(nothing, Drop(KEY, 0.5))[1].shape == (0,)
    assert kernels.multiply(compressed(MATRICES["usual"]), put(np.zeros((21, 0)))).shape == (21, 0)


def test_a_counter_on_the_device_is_read_when_the_kernel_runs():
    a = MATRICES["usual"]
    counter = word()
    rule = Drop(rng.branch(KEY, counter), 0.5)
    structure = compressed(a)
    seen = []
    for _ in range(3):
        sums = kernels.drop_entries(structure, rule)[1]
        near(sums, (a.toarray() * kept(a, rule)).sum(1))
        seen.append(sums.tolist())
        counter += 1
    assert seen[0] != seen[1] != seen[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (70, 16), (1000, 33), (131, 128), (50, 1100)])
def test_sums_and_centres_of_columns(shape, dtype):
    z, shift = rounded(random(*shape) + 3, dtype), random(shape[1])
    near(kernels.column_sums(put(z, dtype), 0.5), z.sum(0) / 2, scale=10)
    near(kernels.column_sums(put(z, dtype), 1.0, put(shift), square=True), np.square(z - shift).sum(0), scale=10)
    moved = kernels.centred(put(z, dtype), put(shift))
    assert moved.dtype == dtype
    near(moved, z - shift, dtype)


def test_columns_that_are_not_there():
    assert kernels.column_sums(put(np.zeros((5, 0))), 1.0).shape == (0,)
    assert kernels.column_sums(put(np.zeros((0, 3))), 1.0).tolist() == [0, 0, 0]


def standardised(z, variance, mean):
    constant = variance <= 1e-12 * (variance + mean**2)
    return (z - mean) * torch.where(constant, 0, torch.where(constant, 1, variance).rsqrt())


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 40), (20, 1100)])
def test_standardised_columns(shape):
    z, g = random(*shape) * 2 + 1, random(*shape, seed=3)
    variance, mean = random(shape[1], seed=4) ** 2 + 0.1, random(shape[1], seed=5)
    variance[:1], mean[:1] = 0, 4
    exact = [torch.tensor(each, requires_grad=True) for each in (z, variance, mean)]
    expected = standardised(*exact)
    expected.backward(torch.tensor(g))
    parts = [put(each) for each in (z, variance, mean)]
    near(kernels.standardised(*parts), expected.detach().numpy())
    for got, wanted in zip(kernels.standardised_backward(put(g), *parts), exact, strict=True):
        near(got, wanted.grad.numpy(), scale=20)


def nt_xent(rows, temperature):
    """The loss and its gradient with respect to the rows as they are, in float64."""
    r = torch.tensor(rows, requires_grad=True)
    logits = (r @ r.T / temperature).fill_diagonal_(-torch.inf)
    twin = torch.arange(len(rows)).roll(len(rows) // 2)
    loss = (logits.logsumexp(1) - logits[torch.arange(len(rows)), twin]).mean()
    loss.backward()
    return float(loss.detach()), r.grad.numpy()


def unit(*shape, seed=4):
    z = random(*shape, seed=seed)
    return z / np.linalg.norm(z, axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 40), (20, 300), (1500, 9)])
def test_columns_standardised_by_their_own_moments(shape, dtype):
    z, g = rounded(random(*shape) * 2 + 1, dtype), random(*shape, seed=3)
    z[:, :1] = 4
    exact = torch.tensor(z, requires_grad=True)
    expected = standardised(exact, *torch.var_mean(exact, 0, correction=0))
    expected.backward(torch.tensor(g))
    got = put(z, dtype).requires_grad_()
    out = KernelDense(kernels).standardise(got)
    out.backward(put(g))
    assert out.dtype == torch.float32
    assert got.grad.dtype == dtype
    near(out, expected.detach().numpy(), scale=10)
    near(got.grad, exact.grad.numpy(), dtype, scale=20)


KINDS = [(torch.float32, False), (torch.bfloat16, False), (torch.bfloat16, True)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "temperature", "kind"), pairs([(2, 3), (10, 16), (66, 33), (150, 7), (34, 600)], [0.05, 0.5], KINDS)
)
def test_contrast(shape, temperature, kind, monkeypatch):
    dtype, stored = kind
    monkeypatch.setattr(fused_ntxent, "_STORED_ROWS", 4096 if stored else 0)
    rows = rounded(unit(*shape), dtype)
    loss, gradient = nt_xent(rows, temperature)
    r = put(rows, dtype).requires_grad_()
    got = kernels.nt_xent(r, temperature)
    (3 * got).backward()
    assert got.shape == ()
    assert got.dtype == torch.float32
    assert r.grad.dtype == dtype
    near(got, loss, scale=5)
    largest = max(np.abs(gradient).max(), 0.1)
    near(r.grad / (3 * largest), gradient / largest, dtype, scale=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (40, 128), (3, 1000), (0, 4)])
def test_unit_rows(shape, dtype):
    z, g = rounded(random(*shape), dtype), rounded(random(*shape, seed=3), dtype)
    z[1:2] = 0
    exact = torch.tensor(z, requires_grad=True)
    length = exact.square().sum(1, keepdim=True)
    expected = exact * torch.where(length == 0, 0, torch.where(length == 0, 1, length).rsqrt())
    expected.backward(torch.tensor(g))
    got = put(z, dtype).requires_grad_()
    out = kernels.unit_rows(got)
    out.backward(put(g, dtype))
    assert out.dtype == got.grad.dtype == dtype
    near(out, expected.detach().numpy(), dtype)
    near(got.grad, exact.grad.numpy(), dtype, scale=4)
    assert not got.grad[1:2].any()
    assert kernels.unit_rows(put(z), torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "rate", "counted", "dtype"),
    pairs([(1, 1), (77, 33), (500, 16)], [None, 0.0, 0.4, 1.0, "each"], [False, True], [torch.float32, torch.bfloat16]),
)
def test_masked_weight(shape, rate, counted, dtype):
    w, g = random(*shape), rounded(random(*shape, seed=3), dtype)
    key = rng.branch(KEY, EPOCH) if counted else KEY
    rates = torch.arange(shape[0]).double() % 5 / 4 if rate == "each" else rate
    factor = np.ones(shape[0]) if rate is None else rng.keep(key, rates, torch.arange(shape[0])).numpy() * 1.25
    given = put(rates, torch.float64) if rate == "each" else rate
    mask = None if rate is None else Mask(rng.branch(KEY, word()) if counted else KEY, given, scale=1.25)
    weight = put(w).requires_grad_()
    out = kernels.masked_weight(weight, mask, dtype, shape[0])
    out.backward(put(g, dtype))
    assert out.dtype == dtype
    assert weight.grad.dtype == torch.float32
    near(out, put(w).cpu().numpy() * factor[:, None], dtype)
    assert torch.equal(out == 0, (put(factor) == 0)[:, None].expand(shape))
    assert torch.equal(weight.grad, put(g) * put(factor)[:, None])
    wider = kernels.masked_weight(weight, mask, dtype, shape[0] + 3)
    assert torch.equal(wider[:-3], out)
    assert not wider[-3:].any()
    (gradient,) = torch.autograd.grad(wider, weight, torch.cat([put(g, dtype), put(g, dtype)[:1].expand(3, -1)]))
    assert torch.equal(gradient, weight.grad)


def test_repeated_calls_are_bit_equal():
    a = MATRICES["hub"]
    structure, h, p = compressed(a), put(random(a.shape[1], 16)), put(random(100, 20))
    rows = put(unit(70, 20)).requires_grad_()

    def outcome():
        loss = kernels.nt_xent(rows, 0.2)
        (slope,) = torch.autograd.grad(loss, rows)
        remaining, sums = kernels.drop_entries(structure, SOME)
        return [kernels.multiply(remaining, h), sums, kernels.column_sums(p, 1.0), loss, slope]

    for one, other in zip(outcome(), outcome(), strict=True):
        assert torch.equal(one, other)

"""Each engine faces the reference in values and gradients at odd sizes; the reference faces dense NumPy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from clnr import chance
from clnr.engine import Drop, Mask, Reference, View, choose, cpu, gpu, sparse
from clnr.errors import DeviceError, UnknownName
from clnr.graph import Graph
from tests import oracles
from tests.conftest import tiny

KEY, OTHER = chance.key(1, "train", 0, 0, "DropEdges"), chance.key(1, "train", 0, 0, "MaskFeatures")
LOOPS = Graph.from_edges([0, 1, 1, 2], [0, 1, 2, 1], np.random.default_rng(1).random((4, 5)), weight=[3.0, 0.5, 1, 1])
GRAPHS = {
    "usual": tiny(),
    "sparse features": tiny(sparse=True),
    "weighted": tiny(weighted=True),
    "directed, weighted, sparse": tiny(undirected=False, weighted=True, sparse=True),
    "one node": Graph.from_edges([], [], [[1.0, 2.0]]),
    "no edges": Graph.from_edges([], [], np.eye(5)),
    "star": Graph.from_edges([0] * 30, np.arange(1, 31), np.random.default_rng(0).random((31, 3)), undirected=True),
    "loops of its own": LOOPS,
    "no features but zeros": Graph.from_edges([0], [1], np.zeros((3, 2)), undirected=True),
    "one feature": tiny(features=1),
}
DROPS = {"all": None, "half": Drop(KEY, 0.5, False), "pairs": Drop(KEY, 0.5, True), "none left": Drop(KEY, 1.0, False)}
MASKS = {"all": None, "columns": Mask(OTHER, 0.4, False), "elements": Mask(OTHER, 0.4, True)}

ENGINES = [pytest.param(cpu, id="cpu"), pytest.param(gpu, id="gpu", marks=pytest.mark.gpu)]


@pytest.fixture
def engine(request):
    if request.param is gpu and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return request.param()


def reference_view(graph, drop="half", mask="columns"):
    engine = Reference(torch.device("cpu"))
    return engine.operators(View(engine.place(graph), DROPS[drop], MASKS[mask]))


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("name", GRAPHS)
def test_reference_propagates_as_the_dense_matrix(name, drop):
    graph, rule = GRAPHS[name], DROPS[drop]

    def keep(source, target):
        if rule is None:
            return True
        i, j = (min(source, target), max(source, target)) if rule.pairs else (source, target)
        return chance.draw(rule.key, i, j) >= int(rule.rate * 2**32)

    h = np.random.default_rng(2).standard_normal((graph.num_nodes, 6))
    got = reference_view(graph, drop).propagate(torch.tensor(h, dtype=torch.float32))
    np.testing.assert_allclose(got.numpy(), oracles.propagation(graph, keep) @ h, atol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_reference_masks_features(name):
    graph = GRAPHS[name]
    x = oracles.dense(graph.features)
    columns = [chance.draw(OTHER, j) >= int(0.4 * 2**32) for j in range(x.shape[1])]
    elements = [[chance.draw(OTHER, i, j) >= int(0.4 * 2**32) for j in range(x.shape[1])] for i in range(x.shape[0])]
    for mask, kept in (("all", True), ("columns", columns), ("elements", elements)):
        np.testing.assert_allclose(reference_view(graph, "all", mask).features.numpy(), x * np.array(kept), rtol=1e-6)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_engine_equals_reference_in_values_and_gradients(engine, name, drop, mask):
    graph = GRAPHS[name]
    random = np.random.default_rng(3)
    wide, narrow = random.standard_normal((graph.num_features, 9)), random.standard_normal((9, 4))
    target = random.standard_normal((graph.num_nodes, 4))

    def outcome(operators, device):
        w, v = (torch.tensor(a, dtype=torch.float32, device=device, requires_grad=True) for a in (wide, narrow))
        convolved = operators.convolve(v, operators.convolve(w).relu())
        projected = operators.project(w) @ v
        propagated = operators.propagate(operators.project(w))
        loss = ((convolved + projected) * torch.tensor(target, dtype=torch.float32, device=device)).sum()
        (loss + propagated.square().sum()).backward()
        return [t.detach().cpu().numpy() for t in (convolved, projected, propagated, operators.features, w.grad, v.grad)]

    placed = engine.place(graph)
    got = outcome(engine.operators(View(placed, DROPS[drop], MASKS[mask])), engine.device)
    expected = outcome(reference_view(graph, drop, mask), "cpu")
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 3), (2, 5), (7, 4), (33, 8)])
@pytest.mark.parametrize("temperature", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_contrast_is_the_papers_loss(engine, shape, temperature, monkeypatch):
    random = np.random.default_rng(4)
    u, v = (random.standard_normal(shape) for _ in range(2))
    rows = np.concatenate([u, v])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = oracles.nt_xent(u, v, temperature)

    def outcome(contrast, dtype, device):
        r = torch.tensor(rows, dtype=dtype, device=device, requires_grad=True)
        loss = contrast(r, temperature)
        (3 * loss).backward()
        return float(loss.detach()), r.grad.cpu().double().numpy()

    oracle, slope = outcome(Reference(torch.device("cpu")).contrast, torch.float64, "cpu")
    assert oracle == pytest.approx(expected, rel=1e-9, abs=1e-12)
    for similarities in (1 << 25, 40, 1):
        monkeypatch.setattr(sparse, "_SIMILARITIES", similarities)
        loss, gradient = outcome(engine.contrast, torch.float64, engine.device)
        assert loss == pytest.approx(expected, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-12)


def test_contrast_survives_extreme_temperatures():
    rows = torch.nn.functional.normalize(torch.randn(20, 4, generator=torch.Generator().manual_seed(0))).requires_grad_()
    for temperature in (1e-3, 1e3):
        loss = cpu().contrast(rows, temperature)
        (gradient,) = torch.autograd.grad(loss, rows)
        assert loss.isfinite()
        assert gradient.isfinite().all()


_ALL_NODES = """
import torch
from clnr.engine import choose
from clnr.machine import MemoryMeter
engine = choose({device!r})
rows = torch.nn.functional.normalize(torch.randn(2 * {nodes}, {width}, device=engine.device)).requires_grad_()
engine.contrast(rows[:64], 0.5).backward()
before = MemoryMeter(engine.device).peak()
meter = MemoryMeter(engine.device)
engine.contrast(rows, 0.5).backward()
print(meter.peak() - (before if engine.device.type == "cpu" else 0))
"""


def all_nodes_memory(device, nodes, width):
    script = _ALL_NODES.format(device=device, nodes=nodes, width=width)
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset a peak")
def test_contrast_over_all_nodes_takes_bounded_memory():
    """12,000 rows have 576 MB of similarities, and the plain formula needs them several times over."""
    assert all_nodes_memory("cpu", 6_000, 4) < 400e6


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset a peak")
def test_contrast_over_all_of_pubmed_on_the_cpu():
    assert all_nodes_memory("cpu", 19_717, 512) < 2 * 2**30


@pytest.mark.gpu
def test_contrast_over_all_of_pubmed_on_the_gpu(cuda):
    assert all_nodes_memory("cuda", 19_717, 512) < 2 * 2**30


def test_choosing_an_engine():
    assert choose("cpu").name == "cpu"
    assert choose("auto").name == ("gpu" if torch.cuda.is_available() else "cpu")
    with pytest.raises(UnknownName, match="unknown device 'gpu'"):
        choose("gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there():
    with pytest.raises(DeviceError, match="'cuda' is not here"):
        choose("cuda")

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

from clnr.bench.timing import generated, growing, measure
from clnr.engine import cpu_engine
from clnr.methods.recipe import Recipe
from tests import oracles
from tests.conftest import tiny

SMALL = Recipe(hidden=8, dimension=6, sampled_nodes=10)


def test_both_implementations_take_turns():
    pytest.importorskip("torch_geometric")
    row = measure(tiny(), SMALL, cpu_engine(), epochs=3, turns=2)
    assert (row.graph, row.nodes) == ("tiny", 40)
    assert row.edges == len(tiny().edges()[0])
    for low, middle, high in (row.ours, row.plain):
        assert 0 < low <= middle <= high
    assert row.ratio == pytest.approx(row.plain[1] / row.ours[1])
    assert min(row.our_bytes, row.plain_bytes) > 1 << 20
    assert row.to_dict()["ratio"] == row.ratio
    alone = measure(tiny(), SMALL, cpu_engine(), epochs=2, turns=1, baseline=False)
    assert alone.plain is alone.plain_bytes is alone.ratio is None


def test_a_generated_graph_has_the_size_that_was_asked_for():
    graph, recipe = generated(30_000)
    assert len(graph.edges()[0]) == pytest.approx(30_000, rel=0.05)
    assert graph.num_nodes == 30_000 // 14
    assert (recipe.layers, recipe.hidden, recipe.sampled_nodes) == (3, 512, 1024)


def test_graphs_grow_until_the_time_is_up(monkeypatch):
    clock = iter(range(0, 10_000, 10))
    module = importlib.import_module("clnr.bench.timing")
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(module, "generated", lambda edges: (edges, None))
    monkeypatch.setattr(module, "measure", lambda graph, *rest: graph if isinstance(graph, int) else 0)
    assert list(growing(cpu_engine(), 60, 1)) == [0, 10_000, 31_623]
    assert list(growing(cpu_engine(), 1, 1)) == [0]
    assert list(growing(cpu_engine(), 1e9, 1)) == [0, *(round(10 ** (half / 2)) for half in range(8, 17))]


@pytest.mark.full
@pytest.mark.parametrize("encoder", ["gcn", "mlp"])
def test_the_baseline_learns(encoder):
    """It is a fair one only if its loss falls."""
    baseline = pytest.importorskip("clnr.bench.pyg_baseline")
    torch.manual_seed(0)
    training = baseline.PlainCLNR(
        tiny(), SMALL.but(encoder=encoder, sampled_nodes=0, edge_drop=0.1, feature_mask=0.1), torch.device("cpu")
    )
    before = [value.detach().clone() for value in training.model.parameters()]

    def loss():
        with torch.no_grad():
            u, v = training.view(), training.view()
        return oracles.nt_xent(u.double().numpy(), v.double().numpy(), SMALL.temperature)

    first = np.mean([loss() for _ in range(5)])
    for _ in range(60):
        training.epoch()
    assert np.mean([loss() for _ in range(5)]) < first - 0.02
    assert any(not torch.equal(a, b) for a, b in zip(before, training.model.parameters(), strict=True))

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from clnr.graph import Graph
from clnr.nn import autograd
from clnr.nn.objectives import CrossEntropy, Reconstruct, Supervision, Variational
from tests import oracles
from tests.conftest import tiny
from tests.nn.objectives.moments import differentiable, rows, step, value

COMPLETE = Graph.from_edges(*np.nonzero(1 - np.eye(5)), np.ones((5, 1)))
GRAPHS = {
    "usual": tiny(),
    "directed": tiny(undirected=False),
    "weighted": tiny(weighted=True),
    "loops of its own": Graph.from_edges([0, 1, 1], [0, 2, 1], np.ones((4, 1))),
    "no edges": Graph.from_edges([], [], np.ones((4, 1))),
    "one node": Graph.from_edges([], [], np.ones((1, 1))),
    "complete": COMPLETE,
}


def drawn(graph, seed, epoch):
    """As many pairs as there are edges, a node's own loop counted."""
    loops = sum(i == j for i, j, _ in zip(*oracles.edge_lists(graph), strict=True))
    count, n = graph.num_edges - loops + graph.num_nodes, graph.num_nodes
    ends = [oracles.key(seed, "pairs", epoch, end) for end in ("row", "column")]
    return [tuple(oracles.draw(key, k) % n for key in ends) for k in range(count)]


@pytest.mark.parametrize("name", GRAPHS)
def test_values_equal_the_loop_over_edges_and_drawn_pairs(name):
    graph = GRAPHS[name]
    (z,) = rows(1, graph.num_nodes, 3)
    seen = set()
    for seed, epoch in ((0, 0), (0, 1), (3, 0)):
        expected = oracles.reconstruction(z, graph, drawn(graph, seed, epoch))
        seen.add(round(expected, 9))
        assert value(Reconstruct(), [z], step(epoch, seed, graph)) == pytest.approx(expected)
    if name in ("usual", "directed", "weighted"):
        assert len(seen) == 3


def kipf_and_welling(z, graph):
    """Their weighted cross entropy over all pairs of two nodes: edges weigh as much as all else, and all is halved."""
    n = graph.num_nodes
    free = oracles.non_edges(graph)
    label = torch.ones(n, n, dtype=torch.float64)
    label[tuple(zip(*free, strict=True))] = 0
    apart = ~torch.eye(n, dtype=torch.bool)
    edges = n * (n - 1) - len(free)
    logits = torch.tensor(z @ z.T)[apart]
    weight = torch.tensor(len(free) / edges)
    return n * (n - 1) / (2 * len(free)) * float(bce(logits, label[apart], pos_weight=weight))


@pytest.mark.parametrize("name", ["usual", "directed"])
def test_over_all_non_edges_it_is_kipf_and_wellings_loss(name):
    (z,) = rows(1, 40, 3)
    full = oracles.reconstruction(z, GRAPHS[name], oracles.non_edges(GRAPHS[name]))
    assert full == pytest.approx(kipf_and_welling(z, GRAPHS[name]))


@pytest.mark.parametrize("name", ["directed", "loops of its own", "no edges", "one node", "complete"])
def test_gradient_of_reconstruction(name):
    graph = GRAPHS[name]
    assert differentiable(Reconstruct(), rows(1, graph.num_nodes, 2), step(0, 0, graph))


def test_extreme_rows_stay_finite():
    z = torch.full((40, 3), 1e4, requires_grad=True)
    loss = Reconstruct()({}, [z], step())
    loss.backward()
    assert loss.isfinite()
    assert z.grad.isfinite().all()


def test_blocks_do_not_matter(monkeypatch):
    graph = tiny()

    def outcome():
        z = torch.tensor(rows(1, 40, 5)[0], requires_grad=True)
        loss = Reconstruct()({}, [z], step(2, 1, graph))
        (3 * loss).backward()
        return float(loss.detach()), z.grad.numpy()

    whole, slope = outcome()
    assert len(autograd._blocks(torch.zeros(1, 5), torch.zeros(100))[0]) == 1
    for numbers, blocks in ((35, 15), (5, 100), (1, 100)):
        monkeypatch.setattr(autograd, "_NUMBERS_PER_BLOCK", numbers)
        assert len(autograd._blocks(torch.zeros(1, 5), torch.zeros(100))[0]) == blocks
        loss, gradient = outcome()
        assert loss == pytest.approx(whole)
        np.testing.assert_allclose(gradient, slope, atol=1e-12)


def normal(seed, epoch, count):
    """Box and Muller's formula on hashed words."""
    out = []
    for i in range(count):
        u, v = ((oracles.draw(oracles.key(seed, "noise", epoch, part), i) >> 8) / 2**24 for part in ("radius", "angle"))
        out.append(math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v))
    return np.array(out)


def variational(mean, log_deviation, graph, seed, epoch):
    z = mean + normal(seed, epoch, mean.size).reshape(mean.shape) * np.exp(log_deviation)
    divergence = oracles.divergence(mean, np.exp(log_deviation)) / len(mean) ** 2
    return oracles.reconstruction(z, graph, drawn(graph, seed, epoch)) + divergence


@pytest.mark.parametrize("name", ["usual", "directed", "no edges", "one node", "complete"])
def test_variational_equals_the_loop(name):
    graph = GRAPHS[name]
    mean, log_deviation = rows(2, graph.num_nodes, 3)
    for seed, epoch in ((0, 0), (2, 5)):
        expected = variational(mean, log_deviation, graph, seed, epoch)
        got = value(Variational(), [np.hstack([mean, log_deviation])], step(epoch, seed, graph))
        assert got == pytest.approx(expected, rel=1e-5)


def test_gradient_of_variational():
    graph = GRAPHS["loops of its own"]
    assert differentiable(Variational(), rows(1, 4, 6), step(0, 0, graph))


def test_a_wide_law_is_finite():
    z = torch.cat([torch.zeros(40, 3), torch.full((40, 3), 200.0)], 1).requires_grad_()
    loss = Variational()({}, [z], step())
    loss.backward()
    assert loss.isfinite()
    assert z.grad.isfinite().all()


TRAIN, VALIDATION = [0, 3, 7, 8], [1, 2, 9]
LABELS = np.arange(40) % 3


def supervision():
    nodes = (torch.tensor(part) for part in (TRAIN, VALIDATION))
    train, validation = ((part, torch.tensor(LABELS)[part]) for part in nodes)
    return Supervision(*train, *validation)


def taught():
    return step(supervision=supervision())


def test_the_loss_is_that_of_the_training_nodes():
    (z,) = rows(1, 40, 3)
    assert value(CrossEntropy(), [z], taught()) == pytest.approx(oracles.cross_entropy(z[TRAIN], LABELS[TRAIN]))


def test_the_criterion_is_that_of_the_validation_nodes_on_the_embedding():
    embedded, z = rows(2, 40, 3)
    loss = CrossEntropy()({}, [torch.tensor(z)], taught())
    got = CrossEntropy().criterion(loss, lambda: torch.tensor(embedded), taught())
    assert float(got) == pytest.approx(oracles.cross_entropy(embedded[VALIDATION], LABELS[VALIDATION]))


def test_gradient_reaches_training_nodes_only():
    (z,) = rows(1, 40, 3)
    assert differentiable(CrossEntropy(), [z], taught())
    z = torch.tensor(z, requires_grad=True)
    CrossEntropy()({}, [z], taught()).backward()
    assert z.grad.any(1).nonzero()[:, 0].tolist() == TRAIN

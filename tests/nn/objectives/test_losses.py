import math

import numpy as np
import pytest
import torch

from clnr.graph import Graph
from clnr.nn import autograd
from clnr.nn.objectives import CCA, Bootstrap, CrossEntropy, Infomax, NTXent, Reconstruct, Supervision, Variational
from tests import oracles
from tests.conftest import tiny
from tests.nn.objectives.moments import differentiable, rows, step, value


def loss(views, temperature=0.5, sampled=0, when=None):
    return value(NTXent(temperature, sampled_nodes=sampled), views, when)


def test_the_rows_that_it_is_given_are_all_contrasted():
    u, v = rows(2, 40, 6)
    for sampled in (0, 9, 40, 1024):
        assert loss([u, v], sampled=sampled) == pytest.approx(oracles.nt_xent(u, v, 0.5))


def test_of_several_encoders_each_ones_views_are_contrasted_by_themselves():
    a, b = rows(2, 20, 6, seed=1), rows(2, 20, 6, seed=2)
    both = oracles.nt_xent(*a, 0.5) + oracles.nt_xent(*b, 0.5)
    assert loss([*a, *b]) == pytest.approx(both)


def bilinear_weights(width, seed=1):
    random = np.random.default_rng(seed)
    return {"weight": random.standard_normal((width, width)), "bias": random.standard_normal(())}


def test_one_view_against_its_own_summary_and_two_each_against_the_others():
    h1, h2, c1, c2 = rows(4, 9, 4)
    for views, triples in (([h1, c1], [(h1, c1, h1)]), ([h1, h2, c1, c2], [(h1, c1, h2), (h2, c2, h1)])):
        expected = oracles.infomax(triples, **bilinear_weights(4))
        assert value(Infomax(), views, parameters=bilinear_weights(4)) == pytest.approx(expected)


NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")


@pytest.mark.parametrize("shape", [(1, 1), (20, 4), (3, 6)])
@pytest.mark.parametrize("decorrelation", [0.0, 1e-3, 2.0])
def test_cca_equals_the_loop(shape, decorrelation):
    u, v = rows(2, *shape)
    assert value(CCA(decorrelation), [u, v]) == pytest.approx(oracles.cca(u, v, decorrelation))


def predictor_weights(width, hidden, seed=1):
    random = np.random.default_rng(seed)
    shapes = ((width, hidden), (hidden,), (hidden, width), (width,))
    parameters = {name: random.standard_normal(shape) for name, shape in zip(NAMES, shapes, strict=True)}
    return parameters | {"0.slope": np.array(0.3)}


def test_bootstrap_equals_the_loop():
    views, parameters = rows(4, 7, 3), predictor_weights(3, 5)

    def predict(z):
        return oracles.perceptron(z, *(parameters[name] for name in NAMES), lambda x: oracles.leaky(x, 0.3))

    assert value(Bootstrap(5), views, parameters=parameters) == pytest.approx(oracles.bootstrap(*views, predict))


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


EXTREME = {
    Reconstruct: torch.full((40, 3), 1e4),
    Variational: torch.cat([torch.zeros(40, 3), torch.full((40, 3), 200.0)], 1),
}


@pytest.mark.parametrize("objective", EXTREME)
def test_extreme_rows_stay_finite(objective):
    z = EXTREME[objective].requires_grad_()
    loss = objective()({}, [z], step())
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


DIFFERENTIABLE = [
    (NTXent(0.5), rows(2, 5, 3), None, {}),
    *((Infomax(), rows(views, 5, 3), None, bilinear_weights(3)) for views in (2, 4)),
    (CCA(0.3), rows(2, 6, 3), None, {}),
    (Bootstrap(4), rows(4, 5, 3), None, predictor_weights(3, 4)),
    *((Reconstruct(), rows(1, graph.num_nodes, 2), step(0, 0, graph), {}) for graph in [*GRAPHS.values()][1:]),
    (Variational(), rows(1, 4, 6), step(0, 0, GRAPHS["loops of its own"]), {}),
    (CrossEntropy(), rows(1, 40, 3), taught(), {}),
]


@pytest.mark.parametrize(("objective", "views", "when", "parameters"), DIFFERENTIABLE, ids=lambda value: type(value).__name__)
def test_gradients_are_those_of_differences(objective, views, when, parameters):
    assert differentiable(objective, views, when, parameters)

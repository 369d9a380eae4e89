"""Half-Hop: against the graph with slow nodes, built explicitly, and dense convolutions on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Drop, Mask, SlowNodes, View, cpu_engine
from clnr.engine import slow_nodes as slow_nodes_module
from clnr.engine.slow_nodes import SlowEdges, SlowNodeOperators
from clnr.errors import MethodError
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.nn.encoders import GAT, GCN, BatchGCN, Features, GaussianGCN, PReLUGCN
from clnr.nn.objectives import StepContext
from tests import oracles
from tests.conftest import tiny
from tests.engine.conftest import EVERY, FUSED, GRAPHS, plain, reference
from tests.nn.encoders.exact import Exact, differentiable, jittered, single

KEY, DROP, SLOW = rng.key(0, "encoder"), oracles.key(1, "drop"), oracles.key(1, "slow")
RATES = {"some": 0.5, "every": 1.0, "none": 0.0}
KINDS = [GCN, PReLUGCN, BatchGCN, GaussianGCN]


def slow_nodes(rate, alpha=0.3):
    return SlowNodes(rng.Key(*SLOW), rate, alpha)


def upsampled(graph, rate, alpha=0.3, drop=0.0):
    return oracles.half_hop(
        graph,
        alpha,
        lambda source, target: not oracles.kept(SLOW, rate, target),
        lambda source, target: oracles.kept(DROP, drop, source, target),
    )


class Upsampled(Exact):
    """The maps of the upsampled graph, where an encoder sees no difference between its nodes."""

    def __init__(self, graph, *form, **more):
        super().__init__(graph)
        self.x, self.a = (torch.tensor(each) for each in upsampled(graph, *form, **more))


def exact(graph, rate):
    without = Exact(graph, slow_nodes=slow_nodes(rate))
    return SlowNodeOperators(without, SlowEdges(without.view))


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_every_encoder_of_convolutions_equals_that_of_the_upsampled_graph(name, kind, layers, rate):
    graph = GRAPHS[name]
    if kind is BatchGCN and graph.num_nodes == 1:
        pytest.skip("columns of one node have no variance")
    encoder = kind(layers, 7, 5)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    if kind is BatchGCN:
        # Batches have the slow nodes, but for the last, which has only what is wanted: its statistics are given.
        parameters |= {f"{layers - 1}.mean": torch.zeros(5), f"{layers - 1}.variance": torch.ones(5)}
    expected = encoder(parameters, Upsampled(graph, rate))[: graph.num_nodes]
    torch.testing.assert_close(encoder(parameters, exact(graph, rate)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [1, 3, 64])
def test_gradients_equal_differences(columns, monkeypatch):
    monkeypatch.setattr(slow_nodes_module, "_WIDTH", columns)
    graph = tiny(9, 14, 3, weighted=True, undirected=False)
    for encoder in (GCN(1, 4, 2), GCN(2, 4, 2), GCN(3, 2, 4)):
        parameters = jittered(encoder.init(3, KEY))
        assert differentiable(lambda weights, encoder=encoder: encoder(weights, exact(graph, 0.5)), parameters)


@pytest.mark.parametrize("engine", [*EVERY, *FUSED], indirect=True)
@pytest.mark.parametrize(("layers", "hidden"), [(1, 6), (2, 4), (2, 9)])
@pytest.mark.parametrize("name", ["usual", "directed, weighted, sparse", "loops of its own", "no edges"])
def test_engines_equal_the_upsampled_graph_in_values_and_gradients(engine, name, layers, hidden):
    """With dropped edges and masked features."""
    graph, encoder = GRAPHS[name], GCN(layers, hidden, 6)
    start = jittered(encoder.init(graph.num_features, KEY))
    mask = Mask(rng.key(2), 0.3)
    back = torch.tensor(np.random.default_rng(1).standard_normal((graph.num_nodes, 6)))

    def outcome(parameters, operators):
        parameters = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        rows = encoder(parameters, operators)[: graph.num_nodes]
        (rows * back.to(rows)).sum().backward()
        return [each.detach().cpu().double().numpy() for each in (rows, *(value.grad for value in parameters.values()))]

    whole = Upsampled(graph, 0.5, drop=0.4)
    whole.x = whole.x * mask.of_columns(graph.num_features, torch.device("cpu"))
    view = View(engine.to_device(graph), Drop(rng.Key(*DROP), 0.4), mask, slow_nodes=slow_nodes(0.5))
    there = {name: value.to(engine.device) for name, value in single(start).items()}
    for one, other in zip(outcome(there, engine.operators(view)), outcome(start, whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.8])
def test_it_is_pygs_transform(alpha):
    pyg = pytest.importorskip("torch_geometric")
    from torch_geometric.nn import GCNConv
    from torch_geometric.transforms import HalfHop

    graph = tiny()
    edge_index = torch.tensor(np.stack(graph.edges()[:2]))
    data = HalfHop(alpha, 1.0)(pyg.data.Data(x=torch.tensor(graph.features), edge_index=edge_index))
    encoder = GCN(2, 7, 5)
    parameters, h = encoder.init(graph.num_features, KEY), data.x
    for layer in range(2):
        convolution = GCNConv(h.shape[1], parameters[f"{layer}.weight"].shape[1])
        convolution.lin.weight.data = parameters[f"{layer}.weight"].T
        h = convolution(h.relu() if layer else h, data.edge_index)
    view = View(cpu_engine().to_device(graph), slow_nodes=slow_nodes(1.0, alpha))
    torch.testing.assert_close(encoder(parameters, cpu_engine().operators(view)), h[~data.slow_node_mask], rtol=1e-4, atol=1e-5)


def test_slow_nodes_do_not_change_features_by_themselves():
    graph = tiny(sparse=True)
    view = View(cpu_engine().to_device(graph), slow_nodes=slow_nodes(1.0))
    assert torch.equal(Features()({}, cpu_engine().operators(view)), cpu_engine().operators(View(view.device_graph)).features)
    within = cpu_engine().operators(view).within(1)
    torch.testing.assert_close(within.features[:40].double(), torch.tensor(oracles.dense(graph.features)))
    assert len(within.features) == 40 + len(graph.edges()[0])
    torch.testing.assert_close(within.features @ torch.ones(12, 2) + 1, within.project(torch.ones(12, 2), torch.ones(2)))


def test_what_has_no_convolutions_of_edges_is_refused():
    graph, encoder = tiny(), GAT(1, 4, 3, 2, 1)
    view = View(cpu_engine().to_device(graph), slow_nodes=slow_nodes(0.5))
    with pytest.raises(MethodError, match="not for attention"):
        encoder(encoder.init(12, KEY), cpu_engine().operators(view))
    with pytest.raises(MethodError, match="only these say how many hops they take"):
        cpu_engine().operators(view).propagate(torch.ones(40, 2))
    with pytest.raises(MethodError, match="no edges for slow nodes to stand on"):
        cpu_engine().operators(view.but(propagation_matrix=view.device_graph.edges))


def test_engines_have_the_same_loss():
    recipe = Recipe(hidden=16, dimension=8, sampled_nodes=20)
    model, losses = METHODS["CLNR-HalfHop"].build(recipe), []
    for engine in (reference(), plain(), cpu_engine()):
        step = StepContext(engine, engine.to_device(tiny(sparse=True)), 1, 4, 10)
        losses.append(model.loss(model.init(12, 1), step))
    torch.testing.assert_close(losses[1:], losses[:1] * 2, rtol=1e-4, atol=1e-5)

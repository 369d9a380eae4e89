from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from clnr import chance
from clnr.encoders import GCN, MLP, Backbone, Features
from clnr.engine import View, cpu
from tests.conftest import tiny
from tests.oracles import dense

KEY = chance.key(0, "encoder")


def operators(graph):
    engine = cpu()
    return engine.operators(View(engine.place(graph)))


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", [{}, {"weighted": True}, {"undirected": False}, {"sparse": True}])
def test_gcn_equals_pygs(layers, form):
    graph = tiny(**form)
    encoder = GCN(layers, 7, 5)
    parameters = encoder.init(graph.num_features, KEY)
    source, target, weight = graph.edges()
    edge_index = torch.tensor(np.stack([source, target]))
    weights = None if weight is None else torch.tensor(weight)
    h = torch.tensor(dense(graph.features), dtype=torch.float32)
    for layer in range(layers):
        h = h.relu() if layer else h
        convolution = GCNConv(h.shape[1], parameters[f"{layer}.weight"].shape[1])
        convolution.lin.weight.data = parameters[f"{layer}.weight"].T
        convolution.bias.data = parameters[f"{layer}.bias"]
        h = convolution(h, edge_index, weights)
    torch.testing.assert_close(encoder(parameters, operators(graph)), h, rtol=1e-4, atol=1e-5)


def test_mlp_trains_with_the_views_statistics_and_embeds_with_those_kept():
    graph, other = tiny(), tiny(seed=5)
    encoder = MLP(3, 8, 4)
    parameters = encoder.init(graph.num_features, KEY)
    assert len(parameters) == 3 * 2 + 2 * 2

    def oracle(x, training, norms):
        h = torch.tensor(x, dtype=torch.float32)
        for layer in range(3):
            h = h @ parameters[f"{layer}.weight"] + parameters[f"{layer}.bias"]
            if layer < 2:
                h = norms[layer].train(training)(h).relu()
        return h.detach()

    norms = [torch.nn.BatchNorm1d(8, momentum=1.0) for _ in range(2)]
    expected = oracle(graph.features, True, norms)
    torch.testing.assert_close(encoder(parameters, operators(graph)), expected, rtol=1e-4, atol=1e-5)
    settled = encoder.settle(parameters, operators(graph))
    torch.testing.assert_close(encoder(settled, operators(graph)), expected, rtol=1e-4, atol=1e-5)
    for norm in norms:
        norm.running_var *= 39 / 40  # torch keeps the unbiased variance
    torch.testing.assert_close(encoder(settled, operators(other)), oracle(other.features, False, norms), rtol=1e-4, atol=1e-5)


def test_mlp_does_not_look_at_edges():
    graph = tiny()
    bare = type(graph).from_edges([], [], graph.features)
    encoder = MLP(2, 8, 4)
    parameters = encoder.init(graph.num_features, KEY)
    assert torch.equal(encoder(parameters, operators(graph)), encoder(parameters, operators(bare)))


def test_glorot_weights_and_zero_biases():
    parameters = GCN(2, 300, 200).init(100, KEY)
    for layer, (rows, columns) in enumerate([(100, 300), (300, 200)]):
        weight = parameters[f"{layer}.weight"]
        bound = (6 / (rows + columns)) ** 0.5
        assert weight.shape == (rows, columns)
        assert 0.99 * bound < weight.abs().max() <= bound
        assert abs(float(weight.var()) - bound**2 / 3) < 0.03 * bound**2
        assert not parameters[f"{layer}.bias"].any()


def test_initial_weights_are_a_pure_function_of_the_key():
    before = torch.random.get_rng_state()
    one, same, other = (GCN(2, 8, 8).init(5, key) for key in (KEY, KEY, chance.key(1, "encoder")))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one["1.weight"], same["1.weight"])
    assert not torch.equal(one["1.weight"], other["1.weight"])
    assert not torch.equal(one["1.weight"][:5], one["0.weight"])


def test_backbone_is_the_encoder_that_it_names():
    graph = tiny()
    for name, encoder in (("gcn", GCN(2, 8, 4)), ("mlp", MLP(2, 8, 4))):
        chosen = Backbone(name, 2, 8, 4)
        parameters = chosen.init(graph.num_features, KEY)
        assert torch.equal(chosen(parameters, operators(graph)), encoder(parameters, operators(graph)))
        assert chosen.settle(parameters, operators(graph)).keys() == encoder.settle(parameters, operators(graph)).keys()


def test_features_are_the_features():
    graph = tiny(sparse=True)
    np.testing.assert_array_equal(Features()({}, operators(graph)).numpy(), dense(graph.features).astype(np.float32))

from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Dropout
from clnr.nn.encoders import GCN, BatchGCN, GaussianGCN, PReLUGCN
from tests import oracles
from tests.conftest import tiny
from tests.nn.encoders.exact import differentiable, exact, jittered, operators, plain, single

KEY = rng.key(0, "encoder")
SMALL = tiny(9, 14, 3)
FORMS = [{}, {"weighted": True}, {"undirected": False}, {"sparse": True}]


def convolved(graph, parameters, layers, after, last):
    """Layer by layer with the dense matrix."""
    a, h = oracles.propagation(graph), oracles.dense(graph.features)
    for layer in range(layers):
        h = a @ h @ parameters[f"{layer}.weight"] + parameters[f"{layer}.bias"]
        if last or layer < layers - 1:
            h = after(h, layer)
    return h


def relu(h, layer):
    return np.maximum(h, 0)


def prelu(parameters):
    return lambda h, layer: oracles.each(lambda x: oracles.leaky(x, parameters[f"{layer}.slope"]), h)


def normed_prelu(parameters):
    def after(h, layer):
        kept = [parameters.get(f"{layer}.{name}") for name in ("scale", "shift", "mean", "variance")]
        return prelu(parameters)(oracles.batch_norm(h, *kept), layer)

    return after


KINDS = {
    GCN: (lambda parameters: relu, False),
    GaussianGCN: (lambda parameters: relu, False),
    PReLUGCN: (prelu, True),
    BatchGCN: (normed_prelu, True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_the_dense_formula(kind, layers, form):
    graph = tiny(**form)
    encoder = kind(layers, 7, 5)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    after, last = KINDS[kind]
    expected = convolved(graph, plain(parameters), layers, after(plain(parameters)), last)
    np.testing.assert_allclose(encoder(parameters, exact(graph)).numpy(), expected, atol=1e-8)
    np.testing.assert_allclose(encoder(single(parameters), operators(graph)).numpy(), expected, rtol=2e-3, atol=2e-4)
    assert expected.shape[1] == encoder.width(graph.num_features)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_differences(kind, layers):
    encoder = kind(layers, 4, 2)
    parameters = jittered(encoder.init(SMALL.num_features, KEY))
    assert differentiable(lambda weights: encoder(weights, exact(SMALL)), parameters)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_gcn_equals_pygs(layers, form):
    GCNConv = pytest.importorskip("torch_geometric.nn").GCNConv

    graph = tiny(**form)
    encoder = GCN(layers, 7, 5)
    parameters = encoder.init(graph.num_features, KEY)
    source, target, weight = graph.edges()
    edge_index = torch.tensor(np.stack([source, target]))
    weights = None if weight is None else torch.tensor(weight)
    h = torch.tensor(oracles.dense(graph.features), dtype=torch.float32)
    for layer in range(layers):
        h = h.relu() if layer else h
        convolution = GCNConv(h.shape[1], parameters[f"{layer}.weight"].shape[1])
        convolution.lin.weight.data = parameters[f"{layer}.weight"].T
        convolution.bias.data = parameters[f"{layer}.bias"]
        h = convolution(h, edge_index, weights)
    torch.testing.assert_close(encoder(parameters, operators(graph)), h, rtol=1e-4, atol=1e-5)


def test_dropout_is_between_the_layers_of_a_gcn():
    graph, rate, key = tiny(), 0.5, rng.key(3, "d")
    parameters = jittered(GCN(3, 6, 4).init(graph.num_features, KEY))

    def after(h, layer):
        own = oracles.key(3, "d", f"layer {layer}")
        kept = [oracles.kept(own, rate, i) for i in range(h.size)]
        return relu(h, layer) * np.reshape(kept, h.shape) / (1 - rate)

    expected = convolved(graph, plain(parameters), 3, after, False)
    got = GCN(3, 6, 4)(parameters, exact(graph, dropout=Dropout(key, rate)))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-10)


def test_batch_gcn_trains_with_the_views_statistics_and_embeds_with_those_kept():
    graph, other = tiny(), tiny(seed=5)
    encoder = BatchGCN(2, 6, 4)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    settled = encoder.finalize(parameters, [exact(graph)])
    assert settled.keys() - parameters.keys() == {f"{layer}.{name}" for layer in range(2) for name in ("mean", "variance")}
    torch.testing.assert_close(encoder.embed(settled, [exact(graph)]), encoder(parameters, exact(graph)))
    expected = convolved(other, plain(settled), 2, normed_prelu(plain(settled)), True)
    np.testing.assert_allclose(encoder.embed(settled, [exact(other)]).numpy(), expected, atol=1e-10)
    assert not torch.allclose(encoder(parameters, exact(other)), encoder(settled, exact(other)))


def test_gaussian_gcn_embeds_its_means():
    graph = tiny()
    encoder = GaussianGCN(2, 7, 3)
    parameters = encoder.init(graph.num_features, KEY)
    both = encoder(parameters, operators(graph))
    assert both.shape == (40, 6)
    assert torch.equal(encoder.embed(parameters, [operators(graph)]), both[:, :3])
    assert torch.equal(encoder.rows(parameters, operators(graph), 0)[0].materialize(), both)

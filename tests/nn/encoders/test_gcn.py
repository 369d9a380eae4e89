from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Dropout
from clnr.nn.encoders import GCN, BatchGCN, GaussianGCN, PReLUGCN
from tests import oracles
from tests.conftest import tiny
from tests.nn.encoders.exact import Exact, differentiable, jittered, operators, plain, single

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
    np.testing.assert_allclose(encoder(parameters, Exact(graph)).numpy(), expected, atol=1e-8)
    np.testing.assert_allclose(encoder(single(parameters), operators(graph)).numpy(), expected, rtol=2e-3, atol=2e-4)
    assert expected.shape[1] == encoder.width(graph.num_features)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_differences(kind, layers):
    encoder = kind(layers, 4, 2)
    parameters = jittered(encoder.init(SMALL.num_features, KEY))
    assert differentiable(lambda weights: encoder(weights, Exact(SMALL)), parameters)


@pytest.mark.parametrize("kind", KINDS)
def test_the_engines_gradients_equal_the_dense_ones(kind):
    graph = tiny(sparse=True)
    encoder = kind(2, 6, 4)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    back = torch.tensor(np.random.default_rng(1).standard_normal((40, encoder.width(12))))

    def gradients(parameters, seen):
        parameters = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        (encoder(parameters, seen) * back).sum().backward()
        return [value.grad.double().numpy() for value in parameters.values()]

    pairs = zip(gradients(single(parameters), operators(graph)), gradients(parameters, Exact(graph)), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)


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
    got = GCN(3, 6, 4)(parameters, Exact(graph, dropout=Dropout(key, rate)))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-10)


def test_one_layer_has_nothing_to_drop_out():
    parameters = GCN(1, 6, 4).init(12, KEY)
    one, other = (GCN(1, 6, 4)(parameters, operators(tiny(), dropout=d)) for d in (None, Dropout(KEY, 0.5)))
    assert torch.equal(one, other)


@pytest.mark.parametrize("kind", [PReLUGCN, BatchGCN])
def test_slopes_begin_at_a_quarter(kind):
    parameters = kind(2, 8, 4).init(5, KEY)
    assert [float(parameters[f"{layer}.slope"]) for layer in range(2)] == [0.25, 0.25]
    assert torch.equal(parameters["1.weight"], GCN(2, 8, 4).init(5, KEY)["1.weight"])


def test_batch_gcn_trains_with_the_views_statistics_and_embeds_with_those_kept():
    graph, other = tiny(), tiny(seed=5)
    encoder = BatchGCN(2, 6, 4)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    settled = encoder.finalize(parameters, [Exact(graph)])
    assert settled.keys() - parameters.keys() == {f"{layer}.{name}" for layer in range(2) for name in ("mean", "variance")}
    torch.testing.assert_close(encoder.embed(settled, [Exact(graph)]), encoder(parameters, Exact(graph)))
    expected = convolved(other, plain(settled), 2, normed_prelu(plain(settled)), True)
    np.testing.assert_allclose(encoder.embed(settled, [Exact(other)]).numpy(), expected, atol=1e-10)
    assert not torch.allclose(encoder(parameters, Exact(other)), encoder(settled, Exact(other)))


def test_gaussian_gcn_embeds_its_means():
    graph = tiny()
    encoder = GaussianGCN(2, 7, 3)
    parameters = encoder.init(graph.num_features, KEY)
    both = encoder(parameters, operators(graph))
    assert both.shape == (40, 6)
    assert torch.equal(encoder.embed(parameters, [operators(graph)]), both[:, :3])
    assert torch.equal(encoder.rows(parameters, operators(graph), 0)[0].materialize(), both)


def test_glorot_weights_and_zero_biases():
    parameters = GCN(2, 300, 200).init(100, KEY)
    for layer, (rows, columns) in enumerate([(100, 300), (300, 200)]):
        weight = parameters[f"{layer}.weight"]
        bound = (6 / (rows + columns)) ** 0.5
        assert weight.shape == (rows, columns)
        assert 0.99 * bound < weight.abs().max() <= bound
        assert abs(float(weight.var()) - bound**2 / 3) < 0.03 * bound**2
        assert not parameters[f"{layer}.bias"].any()


@pytest.mark.parametrize("kind", KINDS)
def test_initial_weights_are_a_pure_function_of_the_key(kind):
    before = torch.random.get_rng_state()
    one, same, other = (kind(2, 8, 8).init(5, key) for key in (KEY, KEY, rng.key(1, "encoder")))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one["1.weight"], same["1.weight"])
    assert not torch.equal(one["1.weight"], other["1.weight"])
    assert not torch.equal(one["1.weight"][:5, :8], one["0.weight"])

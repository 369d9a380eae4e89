from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.nn.encoders import GCN, MLP, Backbone, BatchGCN
from tests import oracles
from tests.conftest import tiny
from tests.nn.encoders.exact import Exact, differentiable, jittered, operators, plain, single

KEY = rng.key(0, "encoder")


def layered(x, parameters, layers):
    h = x @ parameters["0.weight"] + parameters["0.bias"]
    for layer in range(layers - 1):
        kept = [parameters.get(f"{layer}.{name}") for name in ("scale", "shift", "mean", "variance")]
        h = np.maximum(oracles.batch_norm(h, *kept), 0)
        h = h @ parameters[f"{layer + 1}.weight"] + parameters[f"{layer + 1}.bias"]
    return h


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_values_equal_the_loop(layers, sparse):
    graph = tiny(sparse=sparse)
    encoder = MLP(layers, 7, 5)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    expected = layered(oracles.dense(graph.features), plain(parameters), layers)
    np.testing.assert_allclose(encoder(parameters, Exact(graph)).numpy(), expected, atol=1e-8)
    np.testing.assert_allclose(encoder(single(parameters), operators(graph)).numpy(), expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gradients_equal_differences(layers):
    graph = tiny(9, 14, 3)
    encoder = MLP(layers, 4, 2)
    assert differentiable(lambda weights: encoder(weights, Exact(graph)), jittered(encoder.init(3, KEY)))


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
    settled = encoder.finalize(parameters, [operators(graph)])
    torch.testing.assert_close(encoder(settled, operators(graph)), expected, rtol=1e-4, atol=1e-5)
    for norm in norms:
        norm.running_var *= 39 / 40  # torch keeps the unbiased variance
    embedded = encoder.embed(settled, [operators(other)])
    torch.testing.assert_close(embedded, oracle(other.features, False, norms), rtol=1e-4, atol=1e-5)


def test_mlp_does_not_look_at_edges():
    graph = tiny()
    bare = type(graph).from_edges([], [], graph.features)
    encoder = MLP(2, 8, 4)
    parameters = encoder.init(graph.num_features, KEY)
    assert torch.equal(encoder(parameters, operators(graph)), encoder(parameters, operators(bare)))


def test_backbone_is_the_encoder_that_it_names():
    graph = tiny()
    seen = operators(graph)
    for name, encoder in (("gcn", GCN(2, 8, 4)), ("mlp", MLP(2, 8, 4)), ("gcn-bn", BatchGCN(2, 8, 4))):
        chosen = Backbone(name, 2, 8, 4)
        parameters = chosen.init(graph.num_features, KEY)
        assert all(torch.equal(parameters[k], v) for k, v in encoder.init(graph.num_features, KEY).items())
        assert torch.equal(chosen(parameters, seen), encoder(parameters, seen))
        assert chosen.finalize(parameters, [seen]).keys() == encoder.finalize(parameters, [seen]).keys()
        assert chosen.width(12) == 4

import pytest
import torch

from clnr import CLNR, Recipe, rng
from clnr.nn.encoders.gcn import GCN, BatchGCN
from clnr.nn.encoders.mlp import MLP, Backbone
from tests import oracles
from tests.conftest import tiny
from tests.nn.encoders.exact import operators

KEY = rng.key(0, "encoder")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_mlp_trains_with_the_views_statistics_and_embeds_with_those_kept(layers, sparse):
    """As torch's layers do."""
    graph, other = tiny(sparse=sparse), tiny(seed=5, sparse=sparse)
    encoder = MLP(layers, 8, 4)
    parameters = encoder.init(graph.num_features, KEY)
    norms = [torch.nn.BatchNorm1d(8, momentum=1.0) for _ in range(layers - 1)]

    def oracle(graph, training):
        h = torch.tensor(oracles.dense(graph.features), dtype=torch.float32)
        for layer in range(layers):
            h = h @ parameters[f"{layer}.weight"] + parameters[f"{layer}.bias"]
            if layer < layers - 1:
                h = norms[layer].train(training)(h).relu()
        return h.detach()

    expected = oracle(graph, True)
    settled = encoder.finalize(parameters, [operators(graph)])
    for each in (parameters, settled):
        torch.testing.assert_close(encoder(each, operators(graph)), expected, rtol=1e-4, atol=1e-5)
    for norm in norms:
        norm.running_var *= 39 / 40  # torch keeps the unbiased variance
    torch.testing.assert_close(encoder.embed(settled, [operators(other)]), oracle(other, False), rtol=1e-4, atol=1e-5)


def test_backbone_is_the_encoder_that_it_names():
    for name, encoder in (("gcn", GCN(2, 8, 4)), ("mlp", MLP(2, 8, 4)), ("gcn-bn", BatchGCN(2, 8, 4))):
        assert Backbone(2, 8, 4, name).chosen == encoder
        assert CLNR.build(Recipe(encoder=name, layers=2, hidden=8, dimension=4)).encoder == encoder

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Dropout
from clnr.nn.encoders.gcn import GAT, GCN, BatchGCN, GaussianGCN, PReLUGCN
from tests import oracles
from tests.cases import pairs
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


SHAPES = [(1, 1, 1), (1, 4, 2), (2, 3, 1), (2, 2, 3), (3, 2, 2)]


@pytest.mark.parametrize(("shape", "form"), pairs(SHAPES, FORMS))
def test_gat_equals_pygs_in_values_and_gradients(shape, form):
    GATConv = pytest.importorskip("torch_geometric.nn").GATConv

    graph, (layers, heads, output_heads) = tiny(**form), shape
    encoder = GAT(layers, 5, 4, heads, output_heads)
    parameters = {name: value.requires_grad_() for name, value in encoder.init(graph.num_features, KEY).items()}
    source, target, _ = graph.edges()
    edge_index = torch.tensor(np.stack([source, target]))
    h = torch.tensor(oracles.dense(graph.features), dtype=torch.float32)
    copies = []
    for layer in range(layers):
        last = layer == layers - 1
        convolution = GATConv(h.shape[1], 4 if last else 5, output_heads if last else heads, concat=not last)
        convolution.lin.weight.data = parameters[f"{layer}.weight"].detach().T.clone()
        convolution.att_src.data = parameters[f"{layer}.source"].detach()[None].clone()
        convolution.att_dst.data = parameters[f"{layer}.target"].detach()[None].clone()
        convolution.bias.data = parameters[f"{layer}.bias"].detach().clone()
        h = convolution(h if layer == 0 else torch.nn.functional.elu(h), edge_index)
        copies.append(convolution)
    got = encoder(parameters, operators(graph))
    torch.testing.assert_close(got, h, rtol=1e-4, atol=1e-5)
    assert got.shape[1] == encoder.width(graph.num_features)
    (got.square().sum() + h.square().sum()).backward()
    for layer, copy in enumerate(copies):
        slopes = {"weight": copy.lin.weight.grad.T, "source": copy.att_src.grad[0], "target": copy.att_dst.grad[0]}
        for name, expected in (slopes | {"bias": copy.bias.grad}).items():
            torch.testing.assert_close(parameters[f"{layer}.{name}"].grad, expected, rtol=1e-3, atol=1e-3)


def test_dropout_of_a_gat_is_on_the_shares_and_between_layers():
    graph, rate = tiny(), 0.5
    encoder = GAT(2, 3, 2, 2, 1)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    p, near = plain(parameters), oracles.listened_to(graph)
    view = exact(graph, dropout=Dropout(rng.key(3, "d"), rate))
    edges = torch.stack([view.view.device_graph.edges.columns, view.view.device_graph.edges.rows]).T.tolist()

    def layer(h, index, heads, width):
        seen = []
        for head in range(heads):
            rows = h @ p[f"{index}.weight"][:, head * width : (head + 1) * width]
            scores = (rows @ p[f"{index}.{end}"][head] for end in ("source", "target"))
            _, shares = oracles.attend(rows, *scores, near)
            out, own = np.zeros_like(rows), oracles.key(3, "d", f"attention {index}")
            for e, (i, j) in enumerate(edges):
                out[j] += oracles.kept(own, rate, e * heads + head) / (1 - rate) * shares[i, j] * rows[i]
            seen.append(out)
        return seen

    h = oracles.each(oracles.elu, np.concatenate(layer(oracles.dense(graph.features), 0, 2, 3), 1) + p["0.bias"])
    own = oracles.key(3, "d", "layer 1")
    h = h * np.reshape([oracles.kept(own, rate, i) for i in range(h.size)], h.shape) / (1 - rate)
    expected = layer(h, 1, 1, 2)[0] + p["1.bias"]
    np.testing.assert_allclose(encoder(parameters, view).numpy(), expected, atol=1e-9)

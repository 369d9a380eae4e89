from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Drop, Dropout
from clnr.nn.encoders import GAT
from tests import oracles
from tests.conftest import tiny
from tests.nn.encoders.exact import Exact, differentiable, jittered, operators, plain, single

KEY = rng.key(0, "encoder")
FORMS = [{}, {"weighted": True}, {"undirected": False}, {"sparse": True}]
SHAPES = [(1, 1, 1), (1, 4, 2), (2, 3, 1), (2, 2, 3), (3, 2, 2)]


def attended(graph, parameters, encoder, near=None):
    """Layer by layer, head by head, node by node."""
    near = oracles.listened_to(graph) if near is None else near
    h = oracles.dense(graph.features)
    for layer in range(encoder.layers):
        last = layer == encoder.layers - 1
        heads, width = (encoder.output_heads, encoder.dimension) if last else (encoder.heads, encoder.hidden)
        seen = []
        for head in range(heads):
            rows = h @ parameters[f"{layer}.weight"][:, head * width : (head + 1) * width]
            source = rows @ parameters[f"{layer}.source"][head]
            target = rows @ parameters[f"{layer}.target"][head]
            seen.append(oracles.attend(rows, source, target, near)[0])
        h = sum(seen) / heads if last else np.concatenate(seen, 1)
        h = h + parameters[f"{layer}.bias"]
        if not last:
            h = oracles.each(oracles.elu, h)
    return h


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("layers", "heads", "output_heads"), SHAPES)
def test_values_equal_the_loop(layers, heads, output_heads, form):
    graph = tiny(**form)
    encoder = GAT(layers, 5, 4, heads, output_heads)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    expected = attended(graph, plain(parameters), encoder)
    np.testing.assert_allclose(encoder(parameters, Exact(graph)).numpy(), expected, atol=1e-9)
    np.testing.assert_allclose(encoder(single(parameters), operators(graph)).numpy(), expected, rtol=1e-3, atol=1e-4)
    assert expected.shape[1] == encoder.width(graph.num_features)


def test_dropped_edges_are_not_attended_to():
    graph, drop = tiny(), Drop(KEY, 0.5)
    encoder = GAT(2, 3, 2, 2, 1)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    near = oracles.listened_to(graph, lambda i, j: oracles.kept(KEY, 0.5, i, j))
    got = encoder(parameters, Exact(graph, drop=drop))
    np.testing.assert_allclose(got.numpy(), attended(graph, plain(parameters), encoder, near), atol=1e-9)


@pytest.mark.parametrize(("layers", "heads", "output_heads"), SHAPES)
def test_gradients_equal_differences(layers, heads, output_heads):
    graph = tiny(7, 10, 3)
    encoder = GAT(layers, 2, 2, heads, output_heads)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    assert differentiable(lambda weights: encoder(weights, Exact(graph)), parameters)


@pytest.mark.parametrize("form", FORMS)
def test_gat_equals_pygs_in_values_and_gradients(form):
    GATConv = pytest.importorskip("torch_geometric.nn").GATConv

    graph = tiny(**form)
    encoder = GAT(2, 5, 4, 3, 2)
    parameters = {name: value.requires_grad_() for name, value in encoder.init(graph.num_features, KEY).items()}
    source, target, _ = graph.edges()
    edge_index = torch.tensor(np.stack([source, target]))
    h = torch.tensor(oracles.dense(graph.features), dtype=torch.float32)
    copies = []
    for layer, (heads, width, side_by_side) in enumerate([(3, 5, True), (2, 4, False)]):
        convolution = GATConv(h.shape[1], width, heads, concat=side_by_side)
        convolution.lin.weight.data = parameters[f"{layer}.weight"].detach().T.clone()
        convolution.att_src.data = parameters[f"{layer}.source"].detach()[None].clone()
        convolution.att_dst.data = parameters[f"{layer}.target"].detach()[None].clone()
        convolution.bias.data = parameters[f"{layer}.bias"].detach().clone()
        h = convolution(h if layer == 0 else torch.nn.functional.elu(h), edge_index)
        copies.append(convolution)
    got = encoder(parameters, operators(graph))
    torch.testing.assert_close(got, h, rtol=1e-4, atol=1e-5)
    (got.square().sum() + h.square().sum()).backward()
    for layer, copy in enumerate(copies):
        pairs = {"weight": copy.lin.weight.grad.T, "source": copy.att_src.grad[0], "target": copy.att_dst.grad[0]}
        for name, expected in (pairs | {"bias": copy.bias.grad}).items():
            torch.testing.assert_close(parameters[f"{layer}.{name}"].grad, expected, rtol=1e-3, atol=1e-3)


def test_dropout_is_on_the_shares_and_between_layers():
    graph, rate = tiny(), 0.5
    encoder = GAT(2, 3, 2, 2, 1)
    parameters = jittered(encoder.init(graph.num_features, KEY))
    p, near = plain(parameters), oracles.listened_to(graph)
    view = Exact(graph, dropout=Dropout(rng.key(3, "d"), rate))
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


def test_initial_weights():
    parameters = GAT(2, 5, 4, 3, 2).init(12, KEY)
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    first = {"0.weight": (12, 15), "0.source": (3, 5), "0.target": (3, 5), "0.bias": (15,)}
    assert shapes == first | {"1.weight": (15, 8), "1.source": (2, 4), "1.target": (2, 4), "1.bias": (4,)}
    heads = [*parameters["0.weight"].split(5, 1), *parameters["1.weight"].split(4, 1)]
    assert len({float(head[0, 0]) for head in heads}) == 5
    assert not torch.equal(parameters["0.source"], parameters["0.target"])
    assert parameters["0.weight"].abs().max() <= (6 / (12 + 5)) ** 0.5
    assert parameters["0.source"].abs().max() <= (6 / (5 + 1)) ** 0.5
    assert torch.equal(parameters["1.weight"], GAT(2, 5, 4, 3, 2).init(12, KEY)["1.weight"])

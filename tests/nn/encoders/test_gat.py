from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.engine import Dropout
from clnr.nn.encoders import GAT
from tests import oracles
from tests.cases import pairs
from tests.conftest import tiny
from tests.nn.encoders.exact import exact, jittered, operators, plain

KEY = rng.key(0, "encoder")
FORMS = [{}, {"weighted": True}, {"undirected": False}, {"sparse": True}]
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


def test_dropout_is_on_the_shares_and_between_layers():
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

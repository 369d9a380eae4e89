"""CLNR in plain PyTorch Geometric, as a good user would write it: the baseline of the benchmarks.

Everything is on the device and nothing waits for it. PyG provides ``GCNConv`` for the encoder and ``dropout_edge`` for the
views; the feature mask and the perceptron that the paper uses on CS are plain PyTorch.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dropout_edge

from clnr.graph import Graph
from clnr.methods.recipe import Recipe


class Convolutions(nn.Module):
    def __init__(self, widths: list[int]):
        super().__init__()
        self.layers = nn.ModuleList(GCNConv(a, b) for a, b in itertools.pairwise(widths))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x, edges).relu()
        return self.layers[-1](x, edges)


class Perceptron(nn.Module):
    def __init__(self, widths: list[int]):
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-2])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return self.layers(x)


class PlainCLNR:
    """A training of CLNR; ``epoch()`` is one step.

    It is in float32, PyG's default, or under autocast to bfloat16; encoder and loss may be compiled, for any number of edges.
    """

    def __init__(self, graph: Graph, recipe: Recipe, device: torch.device, bfloat16: bool = False, compiled: bool = False):
        data = graph.to_pyg().to(device)
        # Dense, as from PyG's own loaders of these data sets.
        self.recipe, self.x, self.edges = recipe, data.x.to_dense(), data.edge_index
        widths = [graph.num_features, *[recipe.hidden] * (recipe.layers - 1), recipe.dimension]
        model = (Perceptron if recipe.encoder == "mlp" else Convolutions)(widths).to(device)
        self.model: nn.Module = torch.compile(model, dynamic=True) if compiled else model  # type: ignore[assignment]
        self.loss = torch.compile(self._loss) if compiled else self._loss
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=bfloat16)
        fused = True if device.type == "cuda" else None
        self.adam = torch.optim.Adam(self.model.parameters(), lr=recipe.learning_rate, fused=fused)

    def view(self) -> Tensor:
        keep = torch.rand(self.x.shape[1], device=self.x.device) >= self.recipe.feature_mask
        edges, _ = dropout_edge(self.edges, p=self.recipe.edge_drop)
        z = self.model(self.x * keep, edges)
        return (z - z.mean(0)) / z.std(0, correction=0)

    def epoch(self) -> None:
        with self.autocast:
            u, v = self.view(), self.view()
            count = self.recipe.sampled_nodes
            if 0 < count < len(u):
                nodes = torch.randperm(len(u), device=u.device)[:count]
                u, v = u[nodes], v[nodes]
            loss = self.loss(u, v)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()

    def _loss(self, u: Tensor, v: Tensor) -> Tensor:
        rows = nn.functional.normalize(torch.cat([u, v]))
        m = len(u)
        similarity = rows @ rows.T / self.recipe.temperature
        similarity.fill_diagonal_(-torch.inf)
        twin = torch.arange(2 * m, device=rows.device).roll(m)
        return nn.functional.cross_entropy(similarity, twin)

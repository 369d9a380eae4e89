"""The reference engine: plain PyTorch, short and clear, against which the others are tested. It runs no kernel of ours."""

from __future__ import annotations

import torch
from torch import Tensor

from clnr.engine.base import Engine
from clnr.engine.operators import Operators, unit_rows
from clnr.engine.streams import Streams
from clnr.engine.view import DeviceGraph, View
from clnr.graph import Graph


class ReferenceOperators(Operators):
    """Messages gathered along edges and added up at their targets."""

    def __init__(self, view: View):
        super().__init__(view)
        device_graph, mask = view.device_graph, view.mask
        links = view.propagation
        self._source, self._target = links.columns, links.rows
        self._value = links.values
        if view.drop is not None:
            self._value = self._value * view.drop.keep(links)
        if view.propagation_matrix is None:
            degree = torch.zeros(device_graph.graph.num_nodes, device=device_graph.device).index_add(
                0, self._target, self._value
            )
            scale = degree.rsqrt()
            self._value = scale[self._target] * self._value * scale[self._source]
        assert isinstance(device_graph.features, Tensor)
        x = device_graph.features
        if mask is not None and mask.elements:
            rows = torch.arange(x.shape[0], device=x.device)[:, None]
            x = x * mask.of_elements(rows, torch.arange(x.shape[1], device=x.device)[None, :])
        elif mask is not None:
            x = x * mask.of_columns(x.shape[1], x.device)
        self._x = x if view.node_permutation is None else x[view.node_permutation]

    @property
    def features(self) -> Tensor:
        return self._x

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._x @ weight if bias is None else self._x @ weight + bias

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        h = h.relu() if relu else h
        return torch.zeros_like(h).index_add(0, self._target, self._value[:, None] * h[self._source])

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        x = self._x if h is None else h.relu() if relu else h
        return self.propagate(x @ weight) + bias


class Reference(Engine):
    """Plain PyTorch on any device."""

    name = "reference"

    def __init__(self, device: torch.device):
        self.device = device

    def to_device(self, graph: Graph, loop_weight: float = 1.0) -> DeviceGraph:
        return DeviceGraph(graph, self.device, loop_weight, dense_above=-1.0)

    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        return ReferenceOperators(view)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        # Equations 2 and 3 of the paper: a row's similarity to itself is left out, that to its twin is the positive.
        m, rows = rows.shape[0] // 2, unit_rows(rows)
        similarity = rows @ rows.T / temperature
        similarity = similarity.masked_fill(torch.eye(2 * m, dtype=torch.bool, device=rows.device), -torch.inf)
        twin = torch.arange(2 * m, device=rows.device).roll(m)
        return (similarity.logsumexp(1) - similarity.gather(1, twin[:, None])[:, 0]).mean()

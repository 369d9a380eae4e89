"""Encoders: from a view to one row per node. Weights live in a plain dictionary, apart from the formula."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from clnr import chance
from clnr.engine import Operators

Parameters = dict[str, Tensor]


class Encoder(ABC):
    """A function of parameters and a view's operators."""

    @abstractmethod
    def init(self, inputs: int, key: chance.Key) -> Parameters:
        """Fresh parameters on the CPU for ``inputs`` features: a pure function of the key."""

    @abstractmethod
    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        """One row per node."""

    @abstractmethod
    def width(self, inputs: int) -> int:
        """How many numbers it gives each node, from ``inputs`` features."""

    def settle(self, parameters: Parameters, operators: Operators) -> Parameters:
        """After training: parameters with what embedding needs to know of the unperturbed training graph, if anything."""
        return parameters


@dataclass(frozen=True)
class GCN(Encoder):
    r"""Graph convolutions :math:`H' = \hat A H W + b` with ReLU between (Kipf and Welling, 2017)."""

    layers: int
    hidden: int
    dimension: int

    def init(self, inputs: int, key: chance.Key) -> Parameters:
        return _linear_layers([inputs, *[self.hidden] * (self.layers - 1), self.dimension], key)

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        h: Tensor | None = None
        for layer in range(self.layers):
            h = None if h is None else h.relu()
            h = operators.convolve(parameters[f"{layer}.weight"], h) + parameters[f"{layer}.bias"]
        assert h is not None
        return h

    def width(self, inputs: int) -> int:
        return self.dimension


@dataclass(frozen=True)
class MLP(Encoder):
    """Linear layers with batch normalisation and ReLU between; edges are not looked at.

    While training, a batch is all nodes of the view. To embed, the statistics are those of the whole unperturbed training
    graph, which ``settle`` computes once and keeps beside the weights.
    """

    layers: int
    hidden: int
    dimension: int

    _EPSILON = 1e-5

    def init(self, inputs: int, key: chance.Key) -> Parameters:
        parameters = _linear_layers([inputs, *[self.hidden] * (self.layers - 1), self.dimension], key)
        for layer in range(self.layers - 1):
            parameters[f"{layer}.scale"] = torch.ones(self.hidden)
            parameters[f"{layer}.shift"] = torch.zeros(self.hidden)
        return parameters

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return self._forward(parameters, operators, {})

    def width(self, inputs: int) -> int:
        return self.dimension

    def settle(self, parameters: Parameters, operators: Operators) -> Parameters:
        statistics: Parameters = {}
        self._forward(parameters, operators, statistics)
        return parameters | statistics

    def _forward(self, parameters: Parameters, operators: Operators, statistics: Parameters) -> Tensor:
        h = operators.project(parameters["0.weight"]) + parameters["0.bias"]
        for layer in range(self.layers - 1):
            mean, variance = (parameters.get(f"{layer}.{name}") for name in ("mean", "variance"))
            if mean is None or variance is None:
                variance, mean = torch.var_mean(h, 0, correction=0)
                statistics |= {f"{layer}.mean": mean, f"{layer}.variance": variance}
            scale = parameters[f"{layer}.scale"] * (variance + self._EPSILON).rsqrt()
            h = ((h - mean) * scale + parameters[f"{layer}.shift"]).relu()
            h = h @ parameters[f"{layer + 1}.weight"] + parameters[f"{layer + 1}.bias"]
        return h


@dataclass(frozen=True)
class Backbone(Encoder):
    """The encoder that the recipe names: the paper takes a GCN everywhere but on CS, where an MLP does better."""

    encoder: str
    layers: int
    hidden: int
    dimension: int

    _KINDS: ClassVar[dict[str, Any]] = {"gcn": GCN, "mlp": MLP}

    @property
    def _chosen(self) -> Encoder:
        return self._KINDS[self.encoder](self.layers, self.hidden, self.dimension)

    def init(self, inputs: int, key: chance.Key) -> Parameters:
        return self._chosen.init(inputs, key)

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return self._chosen(parameters, operators)

    def width(self, inputs: int) -> int:
        return self.dimension

    def settle(self, parameters: Parameters, operators: Operators) -> Parameters:
        return self._chosen.settle(parameters, operators)


@dataclass(frozen=True)
class Features(Encoder):
    """No encoder: the features themselves."""

    def init(self, inputs: int, key: chance.Key) -> Parameters:
        return {}

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return operators.features

    def width(self, inputs: int) -> int:
        return inputs


def _linear_layers(widths: list[int], key: chance.Key) -> Parameters:
    """Glorot-uniform weights and zero biases for layers between the given widths."""
    parameters: Parameters = {}
    for layer, (rows, columns) in enumerate(itertools.pairwise(widths)):
        bound = math.sqrt(6 / (rows + columns))
        unit = chance.uniform(chance.branch(key, layer), rows * columns)
        parameters[f"{layer}.weight"] = ((2 * unit - 1) * bound).reshape(rows, columns)
        parameters[f"{layer}.bias"] = torch.zeros(columns)
    return parameters

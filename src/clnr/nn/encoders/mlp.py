"""A perceptron that ignores edges, and the encoder that a recipe names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.encoders.encoder import BatchNormEncoder, Encoder, Layered
from clnr.nn.encoders.gcn import GCN, BatchGCN
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters, batch_norm, linear_layers, norms

if TYPE_CHECKING:
    from clnr.engine import Operators
    from clnr.nn.lazy_linear import LazyLinear


@dataclass(frozen=True)
class MLP(Layered, BatchNormEncoder):
    """Linear layers with batch normalisation and ReLU between; edges are not looked at."""

    samples: ClassVar[bool] = True

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        between = [self.hidden] * (self.layers - 1)
        return linear_layers([inputs, *between, self.dimension], key) | norms(between)

    @property
    def shifts(self) -> tuple[str, ...]:
        return (f"{self.layers - 1}.bias",)

    @property
    def own_outputs(self) -> tuple[int, ...]:
        return (0,)

    def lazy(self, parameters: Parameters, operators: Operators, statistics: Parameters | None = None) -> LazyLinear:
        from clnr.nn.lazy_linear import LazyLinear

        maps = operators.within(0)
        h = maps.project(parameters["0.weight"], parameters["0.bias"])
        for layer in range(1, self.layers):
            h = batch_norm(parameters, layer - 1, h, statistics, operators.dense, lambda: maps.nodes).relu_()
            weight, bias = parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]
            if layer == self.layers - 1:
                return LazyLinear(h, weight, bias, operators.dense)
            h = operators.dense.linear(h, weight.to(h.dtype), bias)
        return LazyLinear(h, dense=operators.dense)


@dataclass(frozen=True)
class Backbone(GCN):
    """The encoder that the recipe names: the paper takes a GCN everywhere but on CS, where an MLP does better."""

    encoder: str = hyper_parameter(
        "gcn",
        choices=("gcn", "mlp", "gcn-bn"),
        meaning="graph convolutions, a perceptron without edges, or BGRL's convolutions with batch norm",
        source="paper, section 3",
    )

    @property
    def chosen(self) -> Encoder:
        kinds: dict[str, Callable[[int, int, int], Encoder]] = {"gcn": GCN, "mlp": MLP, "gcn-bn": BatchGCN}
        return kinds[self.encoder](self.layers, self.hidden, self.dimension)

"""Graph convolutions, with what different papers put between and after them; and graph attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.encoders.encoder import BatchNormEncoder, Layered, PlainEncoder
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters, batch_norm, convolution_layers, glorot, norms, prelu, prelu_weights

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.nn.lazy_linear import LazyLinear


def _convolutions(parameters: Parameters, operators: Operators, layers: int, after: Callable[[Tensor, int], Tensor]) -> Tensor:
    r"""Layers :math:`H' = \hat A H W + b` with ``after`` each of them (Kipf and Welling, 2017)."""
    h: Tensor | None = None
    for layer in range(layers):
        maps = operators.within(layers - layer)
        h = after(maps.convolve(parameters[f"{layer}.weight"], parameters[f"{layer}.bias"], h), layer)
    assert h is not None
    return h


@dataclass(frozen=True)
class GCN(Layered, PlainEncoder):
    """Graph convolutions with ReLU between, and dropout where the view has it."""

    samples: ClassVar[bool] = True

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        return convolution_layers([inputs, *[self.hidden] * (self.layers - 1), self.dimension], key)

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return self.lazy(parameters, operators).materialize()

    def lazy(self, parameters: Parameters, operators: Operators) -> LazyLinear:
        from clnr.nn.lazy_linear import LazyLinear

        h: Tensor | None = None
        for layer in range(self.layers):
            maps = operators.within(self.layers - layer)
            weight, bias = parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]
            if layer == self.layers - 1 and h is not None and weight.shape[0] <= weight.shape[1]:
                return LazyLinear(maps.propagate(h, relu=True), weight, bias, operators.dense)
            h = maps.convolve(weight, bias, h, relu=True)
            if layer < self.layers - 1:
                # Dropout before ReLU equals dropout after it.
                h = operators.within(self.layers - layer - 1).dropout(h, f"layer {layer}")
        assert h is not None
        return LazyLinear(h, dense=operators.dense)

    @property
    def shifts(self) -> tuple[str, ...]:
        return (f"{self.layers - 1}.bias",)


@dataclass(frozen=True)
class PReLUGCN(Layered, PlainEncoder):
    """Graph convolutions, each with a PReLU after it (as in DGI and MVGRL)."""

    samples: ClassVar[bool] = True

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        return GCN(self.layers, self.hidden, self.dimension).init(inputs, key) | prelu_weights(self.layers)

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        def after(h: Tensor, layer: int) -> Tensor:
            return prelu(h, parameters[f"{layer}.slope"])

        return _convolutions(parameters, operators, self.layers, after)


@dataclass(frozen=True)
class BatchGCN(Layered, BatchNormEncoder):
    """Graph convolutions, each with batch normalisation and a PReLU after it (as in BGRL)."""

    samples: ClassVar[bool] = True

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        plain = PReLUGCN(self.layers, self.hidden, self.dimension).init(inputs, key)
        return plain | norms([*[self.hidden] * (self.layers - 1), self.dimension])

    def lazy(self, parameters: Parameters, operators: Operators, statistics: Parameters | None = None) -> LazyLinear:
        from clnr.nn.lazy_linear import LazyLinear

        maps = operators.unpadded()

        def after(h: Tensor, layer: int) -> Tensor:
            hops = self.layers - layer - 1
            h = batch_norm(parameters, layer, h, statistics, operators.dense, lambda: maps.within(hops).nodes)
            return prelu(h, parameters[f"{layer}.slope"])

        return LazyLinear(_convolutions(parameters, maps, self.layers, after), dense=operators.dense)


@dataclass(frozen=True)
class GaussianGCN(Layered, PlainEncoder):
    """A GCN that gives each node a normal law: ``dimension`` means, then as many logarithms of standard deviations.

    The embedding is the means (Kipf and Welling, "Variational graph auto-encoders", 2016).
    """

    samples: ClassVar[bool] = True

    @property
    def _both(self) -> GCN:
        return GCN(self.layers, self.hidden, 2 * self.dimension)

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        # In the authors' program means and deviations are two layers, each drawn by its own width.
        import torch

        last = f"{self.layers - 1}.weight"
        parameters = self._both.init(inputs, key)
        rows = len(parameters[last])
        halves = [glorot(rng.branch(key, self.layers - 1, half), rows, self.dimension) for half in ("mean", "deviation")]
        return parameters | {last: torch.cat(halves, 1)}

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return self._both(parameters, operators)

    def width(self, inputs: int) -> int:
        return 2 * self.dimension

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        return self(parameters, eval_views[0])[:, : self.dimension]


@dataclass(frozen=True)
class GAT(Layered, PlainEncoder):
    """Attention over neighbours with ELU between layers (Velickovic et al., "Graph attention networks", 2018).

    A layer's ``heads`` stand side by side, ``hidden`` numbers each; those of the last layer, ``dimension`` numbers each, are
    averaged. Dropout, where the view has it, is on the shares of attention and between layers.
    """

    heads: int = hyper_parameter(8, 1, 1024, "of attention", source="GAT's authors")
    output_heads: int = hyper_parameter(1, 1, 1024, "of attention in the last layer, averaged", source="GAT's authors")

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        import torch

        parameters: Parameters = {}
        for layer in range(self.layers):
            heads, width = self._shape(layer)
            rows = inputs if layer == 0 else self.heads * self.hidden
            own = rng.branch(key, layer)
            # One head's weights are drawn as one matrix, and so are the vectors that score its rows.
            blocks = [glorot(rng.branch(own, "weight", head), rows, width) for head in range(heads)]
            parameters[f"{layer}.weight"] = torch.cat(blocks, 1)
            for end in ("source", "target"):
                scores = [glorot(rng.branch(own, end, head), 1, width) for head in range(heads)]
                parameters[f"{layer}.{end}"] = torch.cat(scores)
            parameters[f"{layer}.bias"] = torch.zeros(width if self._last(layer) else heads * width)
        return parameters

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        import torch

        from clnr.engine.products import at_least_float32

        h = at_least_float32(operators.project(parameters["0.weight"]))
        for layer in range(self.layers):
            if layer:
                h = operators.dropout(torch.nn.functional.elu(h), f"layer {layer}") @ parameters[f"{layer}.weight"]
            rows = h.unflatten(1, self._shape(layer))
            source, target = ((rows * parameters[f"{layer}.{end}"]).sum(2) for end in ("source", "target"))
            seen = operators.attend(rows, source, target, f"attention {layer}")
            h = (seen.mean(1) if self._last(layer) else seen.flatten(1)) + parameters[f"{layer}.bias"]
        return h

    def _last(self, layer: int) -> bool:
        return layer == self.layers - 1

    def _shape(self, layer: int) -> tuple[int, int]:
        """Heads of a layer, and the width of each."""
        return (self.output_heads, self.dimension) if self._last(layer) else (self.heads, self.hidden)

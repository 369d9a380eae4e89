"""Graph attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clnr import rng
from clnr.nn.encoders.encoder import Layered, PlainEncoder
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters, glorot
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.engine.products import at_least_float32
else:
    torch = lazy("torch")
    at_least_float32 = lazy("clnr.engine.products", "at_least_float32")


@dataclass(frozen=True)
class GAT(Layered, PlainEncoder):
    """Attention over neighbours with ELU between layers (Velickovic et al., "Graph attention networks", 2018).

    A layer's ``heads`` stand side by side, ``hidden`` numbers each; those of the last layer, ``dimension`` numbers each, are
    averaged. Dropout, where the view has it, is on the shares of attention and between layers.
    """

    heads: int = hyper_parameter(8, 1, 1024, "of attention", source="GAT's authors")
    output_heads: int = hyper_parameter(1, 1, 1024, "of attention in the last layer, averaged", source="GAT's authors")

    def init(self, inputs: int, key: rng.Key) -> Parameters:
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

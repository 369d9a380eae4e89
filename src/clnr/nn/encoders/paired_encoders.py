"""Encoders of two halves: one that follows the other, and one for each kind of view."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.encoders.encoder import DIMENSION, HIDDEN, LAYERS, Encoder
from clnr.nn.encoders.gcn import BatchGCN, PReLUGCN
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.nn.lazy_linear import LazyLinear
else:
    torch = lazy("torch")
    LazyLinear = lazy("clnr.nn.lazy_linear", "LazyLinear")


@dataclass(frozen=True)
class MomentumEncoder(Encoder):
    r"""An encoder that learns, and a target that follows it: :math:`\theta' \leftarrow m \theta' + (1 - m) \theta`.

    ``m`` rises from ``momentum`` to 1 by a cosine. An objective sees the learning encoder's rows of all views, then the
    target's, through which no gradient flows; the embedding is the learning one's. Thakoor et al., "Large-scale
    representation learning on graphs via bootstrapping" (2022).
    """

    layers: int = LAYERS.field()
    hidden: int = HIDDEN.field()
    dimension: int = DIMENSION.field()
    momentum: float = hyper_parameter(
        0.99, 0.0, 1.0, "with which the target follows, at first; it rises to 1", source="BGRL's authors"
    )

    asymmetric: ClassVar[bool] = True
    samples: ClassVar[bool] = True
    encoders: ClassVar[int] = 2

    @property
    def _one(self) -> BatchGCN:
        return BatchGCN(self.layers, self.hidden, self.dimension)

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        # The target starts from weights of its own, as in the authors' program.
        online, target = (add_prefix(side, self._one.init(inputs, rng.branch(key, side))) for side in ("online", "target"))
        return online | target

    def width(self, inputs: int) -> int:
        return self.dimension

    @property
    def batch_norms(self) -> tuple[int, ...]:
        return 2 * self._one.batch_norms

    def learns(self, name: str) -> bool:
        return name.startswith("online.")

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        return parameters | add_prefix("online", self._one.finalize(sub_dict(parameters, "online"), eval_views))

    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        online = self._one.rows(sub_dict(parameters, "online"), operators, index)
        with torch.no_grad():
            return online + self._one.rows(sub_dict(parameters, "target"), operators, index)

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        return self._one.embed(sub_dict(parameters, "online"), eval_views)

    def update_ema(self, parameters: Parameters, epoch: int | Tensor, epochs: int) -> None:
        step = (1 - self.momentum) * (1 + torch.cos(math.pi * torch.as_tensor((epoch + 1) / epochs))) / 2
        with torch.no_grad():
            for name, value in sub_dict(parameters, "target").items():
                value.lerp_(parameters[f"online.{name}"], step.to(value.dtype))


@dataclass(frozen=True)
class MultiViewEncoder(Encoder):
    """One encoder for the graph's own edges and one for its diffusion, taken in turn by the views; their sum is the embedding.

    Hassani and Khasahmadi, "Contrastive multi-view representation learning on graphs" (2020).
    """

    layers: int = LAYERS.field()
    hidden: int = HIDDEN.field()
    dimension: int = DIMENSION.field()

    asymmetric: ClassVar[bool] = True
    samples: ClassVar[bool] = True

    _SIDES: ClassVar[tuple[str, ...]] = ("edges", "diffusion")

    @property
    def _one(self) -> PReLUGCN:
        return PReLUGCN(self.layers, self.hidden, self.dimension)

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        edges, diffusion = (add_prefix(side, self._one.init(inputs, rng.branch(key, side))) for side in self._SIDES)
        return edges | diffusion

    def width(self, inputs: int) -> int:
        return self.dimension

    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        return self._one.rows(self._side(parameters, index), operators, index)

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        return torch.stack([self._one(self._side(parameters, i), view) for i, view in enumerate(eval_views)]).sum(0)

    def _side(self, parameters: Parameters, index: int) -> Parameters:
        return sub_dict(parameters, self._SIDES[index % len(self._SIDES)])

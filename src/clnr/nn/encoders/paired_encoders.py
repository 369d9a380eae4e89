"""Encoders of two halves: one that follows the other, one for each kind of view, and a GCN beside an MLP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.encoders.encoder import HIDDEN, Encoder, Layered
from clnr.nn.encoders.gcn import GCN, BatchGCN, PReLUGCN
from clnr.nn.encoders.mlp import MLP
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters, add_prefix, sub_dict

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.nn.lazy_linear import LazyLinear


@dataclass(frozen=True)
class MomentumEncoder(Layered, Encoder):
    r"""An encoder that learns, and a target that follows it: :math:`\theta' \leftarrow m \theta' + (1 - m) \theta`.

    ``m`` rises from ``momentum`` to 1 by a cosine. An objective sees the learning encoder's rows of all views, then the
    target's, through which no gradient flows; the embedding is the learning one's. Thakoor et al., "Large-scale
    representation learning on graphs via bootstrapping" (2022).
    """

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

    def learns(self, name: str) -> bool:
        return name.startswith("online.")

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        return parameters | add_prefix("online", self._one.finalize(sub_dict(parameters, "online"), eval_views))

    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        import torch

        online = self._one.rows(sub_dict(parameters, "online"), operators, index)
        with torch.no_grad():
            return online + self._one.rows(sub_dict(parameters, "target"), operators, index)

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        return self._one.embed(sub_dict(parameters, "online"), eval_views)

    def update_ema(self, parameters: Parameters, epoch: int | Tensor, epochs: int) -> None:
        import torch

        step = (1 - self.momentum) * (1 + torch.cos(math.pi * torch.as_tensor((epoch + 1) / epochs))) / 2
        with torch.no_grad():
            for name, value in sub_dict(parameters, "target").items():
                value.lerp_(parameters[f"online.{name}"], step.to(value.dtype))


@dataclass(frozen=True)
class MultiViewEncoder(Layered, Encoder):
    """One encoder for the graph's own edges and one for its diffusion, taken in turn by the views; their sum is the embedding.

    Hassani and Khasahmadi, "Contrastive multi-view representation learning on graphs" (2020).
    """

    asymmetric: ClassVar[bool] = True
    samples: ClassVar[bool] = True

    _SIDES: ClassVar[tuple[str, ...]] = ("edges", "diffusion")

    @property
    def _one(self) -> PReLUGCN:
        return PReLUGCN(self.layers, self.hidden, self.dimension)

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        edges, diffusion = (add_prefix(side, self._one.init(inputs, rng.branch(key, side))) for side in self._SIDES)
        return edges | diffusion

    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        return self._one.rows(self._side(parameters, index), operators, index)

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        import torch

        return torch.stack([self._one(self._side(parameters, i), view) for i, view in enumerate(eval_views)]).sum(0)

    def _side(self, parameters: Parameters, index: int) -> Parameters:
        return sub_dict(parameters, self._SIDES[index % len(self._SIDES)])


@dataclass(frozen=True)
class GCNAndMLP(Encoder):
    """A graph convolution, which knows a node by its neighbours, and an MLP, which knows it by its own features.

    They share no weight, and an objective compares each one's rows by themselves. The embedding is both side by side.
    """

    hidden: int = HIDDEN.field()

    samples: ClassVar[bool] = True
    encoders: ClassVar[int] = 2
    num_outputs: ClassVar[int] = 2

    @property
    def _gcn(self) -> GCN:
        return GCN(1, self.hidden, self.hidden)

    @property
    def _mlp(self) -> MLP:
        return MLP(2, self.hidden, self.hidden)

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        gcn, mlp = self._gcn.init(inputs, rng.branch(key, "gcn")), self._mlp.init(inputs, rng.branch(key, "mlp"))
        return add_prefix("gcn", gcn) | add_prefix("mlp", mlp)

    def width(self, inputs: int) -> int:
        return self.hidden

    @property
    def shifts(self) -> tuple[str, ...]:
        return (*(f"gcn.{name}" for name in self._gcn.shifts), *(f"mlp.{name}" for name in self._mlp.shifts))

    @property
    def own_outputs(self) -> tuple[int, ...]:
        return (1,)

    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        gcn, mlp = sub_dict(parameters, "gcn"), sub_dict(parameters, "mlp")
        return [self._gcn.lazy(gcn, operators), self._mlp.lazy(mlp, operators)]

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        return parameters | add_prefix("mlp", self._mlp.finalize(sub_dict(parameters, "mlp"), eval_views))

    def outputs(self, parameters: Parameters, eval_views: list[Operators]) -> list[Tensor]:
        gcn, mlp = sub_dict(parameters, "gcn"), sub_dict(parameters, "mlp")
        return [self._gcn(gcn, eval_views[0]), self._mlp(mlp, eval_views[0])]

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        import torch

        return torch.cat(self.outputs(parameters, eval_views), 1)

"""A GCN and an MLP side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.encoders.encoder import HIDDEN, Encoder
from clnr.nn.encoders.gcn import GCN
from clnr.nn.encoders.mlp import MLP
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.nn.lazy_linear import LazyLinear
else:
    torch = lazy("torch")


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
        return torch.cat(self.outputs(parameters, eval_views), 1)

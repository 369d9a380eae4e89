"""Contrast of nodes: NT-Xent."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters
from clnr.nn.objectives.objective import Objective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")


@dataclass(frozen=True)
class NTXent(Objective):
    r"""Normalised temperature-scaled cross entropy over ``sampled_nodes`` nodes, equations 2 and 3 of the paper.

    .. math:: -\frac{1}{2m} \sum_i \left[ \ell(u_i, v_i) + \ell(v_i, u_i) \right]

    Chen et al., "A simple framework for contrastive learning of visual representations" (2020). New nodes are sampled each
    epoch; 0, or no fewer than the graph has, means all of them. The losses of several encoders are added up.
    """

    temperature: float = hyper_parameter(0.5, 1e-3, 1e3, "of NT-Xent", source="paper, hyper-parameters")
    sampled_nodes: int = hyper_parameter(
        1024, 0, 2**31 - 1, "nodes in the loss, drawn afresh each epoch; 0 for all", source="paper, table 2"
    )
    moments: str = hyper_parameter(
        "all",
        choices=("all", "sampled"),
        meaning="columns are standardised over all nodes, or over those in the loss, which costs less",
        source="paper, equation 1",
    )
    max_neighbors: int = hyper_parameter(
        0, 0, 2**31 - 1, "neighbours taken of a node where moments are sampled, drawn afresh each epoch; 0 for all"
    )

    target: ClassVar[str] = "N-N"
    negatives: ClassVar[bool] = True
    views: ClassVar[range] = range(2, 3)

    @property
    def sampled_moments(self) -> bool:
        return self.moments == "sampled"

    def samples(self, count: int) -> bool:
        return self.sampled_moments and 0 < self.sampled_nodes < count

    def nodes(self, count: int, step: StepContext) -> Tensor | None:
        if not 0 < self.sampled_nodes < count:
            return None
        return rng.sample(step.seed, step.epoch, step.epochs, count, self.sampled_nodes, step.device_graph.device)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        # Of several encoders, each one's two views.
        losses = [step.engine.nt_xent(torch.cat(views[i : i + 2]), self.temperature) for i in range(0, len(views), 2)]
        return functools.reduce(torch.add, losses)

"""Contrast of nodes: NT-Xent."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters
from clnr.nn.objectives.objective import SampledObjective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import unit_rows
    from clnr.engine.torch_ntxent import blocked_nt_xent
else:
    torch = lazy("torch")
    unit_rows, blocked_nt_xent = lazy("clnr.engine", "unit_rows"), lazy("clnr.engine.torch_ntxent", "blocked_nt_xent")


@dataclass(frozen=True)
class NTXent(SampledObjective):
    r"""Normalised temperature-scaled cross entropy over ``sampled_nodes`` nodes, equations 2 and 3 of the paper.

    .. math:: -\frac{1}{2m} \sum_i \left[ \ell(u_i, v_i) + \ell(v_i, u_i) \right]

    Chen et al., "A simple framework for contrastive learning of visual representations" (2020). The losses of several
    encoders are added up.
    """

    temperature: float = hyper_parameter(0.5, 1e-3, 1e3, "of NT-Xent", source="paper, hyper-parameters")

    target: ClassVar[str] = "N-N"
    negatives: ClassVar[bool] = True
    sampled_loss: ClassVar[bool] = True
    all_pairs: ClassVar[bool] = True
    views: ClassVar[range] = range(2, 3)
    shares: ClassVar[bool] = True
    gathers: ClassVar[bool] = True

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        # Of several encoders, each one's two views.
        losses = [self._of_rows(torch.cat(views[i : i + 2]), step) for i in range(0, len(views), 2)]
        return functools.reduce(torch.add, losses)

    def _of_rows(self, rows: Tensor, step: StepContext) -> Tensor:
        if step.workers.alone:
            return step.engine.nt_xent(rows, self.temperature)
        return blocked_nt_xent(unit_rows(rows), self.temperature, workers=step.workers)

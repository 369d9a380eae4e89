"""Contrast: rows are told from negative ones. NT-Xent compares nodes with nodes, infomax with a summary of the graph."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters, bilinear
from clnr.nn.objectives.objective import SOME, SampledObjective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn.functional import softplus

    from clnr.engine import unit_rows
    from clnr.engine.torch_ntxent import blocked_nt_xent
else:
    torch = lazy("torch")
    softplus = lazy("torch.nn.functional", "softplus")
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


@dataclass(frozen=True)
class Infomax(SampledObjective):
    r"""A bilinear discriminator tells the nodes of the graph from those of a corrupted one, by a summary of the graph.

    The first half of the views are of the graph, each summarised by :math:`c = \sigma(\mathrm{mean}_i h_i)` over its rows: of
    all nodes, or of the sampled ones. The second half are their corruptions. With :math:`D(h, c) = h^T W c + b`, the loss is
    the binary cross entropy of D, true for real nodes and false for corrupted ones. A view's nodes are compared with the next
    view's summary: with one view this is Velickovic et al., "Deep graph infomax" (2019); with two, each against the other's,
    Hassani and Khasahmadi, "Contrastive multi-view representation learning on graphs" (2020).
    """

    target: ClassVar[str] = "N-G"
    estimator: ClassVar[bool] = True
    negatives: ClassVar[bool] = True
    views: ClassVar[range] = SOME[1::2]
    shares: ClassVar[bool] = True

    def init(self, width: int, key: rng.Key) -> Parameters:
        return {"weight": bilinear(key, width), "bias": torch.zeros(())}

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        real, corrupted = views[: len(views) // 2], views[len(views) // 2 :]
        means = step.workers.all_reduce_with_grad(torch.stack([step.workers.mean(h, 0) for h in real]))
        summaries = [parameters["weight"] @ mean.sigmoid() for mean in means]
        terms = []
        for direction, h, other in zip(summaries[1:] + summaries[:1], real, corrupted, strict=True):
            terms.append(softplus(-(h @ direction + parameters["bias"])))
            terms.append(softplus(other @ direction + parameters["bias"]))
        return step.workers.mean(torch.cat(terms))

    def summed(self, width: int, views: int) -> int:
        return views // 2 * width

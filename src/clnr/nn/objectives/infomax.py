"""Contrast of nodes with summaries of the graph: estimated mutual information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.layers import Parameters, bilinear
from clnr.nn.objectives.objective import SOME, SampledObjective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn.functional import softplus
else:
    torch = lazy("torch")
    softplus = lazy("torch.nn.functional", "softplus")


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

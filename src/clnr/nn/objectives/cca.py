"""Agreement of features: soft canonical correlation analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters
from clnr.nn.objectives.objective import SampledObjective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")


@dataclass(frozen=True)
class CCA(SampledObjective):
    r"""Invariance of two views and decorrelation of each one's columns.

    .. math:: -\frac{1}{n} \mathrm{tr}(U^T V)
        + \lambda \left( \lVert I - \tfrac{1}{n} U^T U \rVert_F^2 + \lVert I - \tfrac{1}{n} V^T V \rVert_F^2 \right)

    for standardised columns, where the first term is half the mean squared distance of U and V up to a constant. Zhang et
    al., "From canonical correlation analysis to self-supervised graph neural networks" (2021); ``decorrelation`` is their
    lambda. Nothing is larger than the F x F correlations.
    """

    decorrelation: float = hyper_parameter(1e-3, 0.0, 1e6, "weight of the decorrelation of columns", source="CCA-SSG's authors")

    target: ClassVar[str] = "F-F"
    views: ClassVar[range] = range(2, 3)
    shares: ClassVar[bool] = True

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        u, v = views
        n = step.workers.num_rows(u)
        agreement = (u * v).sum() / n
        one = torch.eye(u.shape[1], dtype=u.dtype, device=u.device)
        distances = [(one - step.workers.all_reduce_with_grad(z.T @ z) / n).square().sum() for z in views]
        return self.decorrelation * sum(map(step.workers.part, distances)) - agreement

    def summed(self, width: int, views: int) -> int:
        return views * width**2

"""Agreement of two views without negatives: of columns, by canonical correlation, or of nodes, by bootstrapping."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import HEAD_WIDTH, Parameters, linear_layers, perceptron, prelu, prelu_weights
from clnr.nn.objectives.objective import SampledObjective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import unit_rows
else:
    torch = lazy("torch")
    unit_rows = lazy("clnr.engine", "unit_rows")


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


@dataclass(frozen=True)
class Bootstrap(SampledObjective):
    r"""The cosine similarity of each view's predicted rows and the target encoder's rows of the other view.

    .. math:: 2 - \frac{1}{n} \sum_i \left[ \cos(q(u_i), v'_i) + \cos(q(v_i), u'_i) \right]

    for rows u, v of the online encoder and u', v' of the target. The predictor q has one hidden layer with PReLU,
    ``head_width`` wide (0 for twice the rows). Thakoor et al., "Large-scale representation learning on graphs via
    bootstrapping" (2022).
    """

    head_width: int = HEAD_WIDTH.field()

    target: ClassVar[str] = "N-N"
    head: ClassVar[bool] = True
    views: ClassVar[range] = range(2, 3)
    shares: ClassVar[bool] = True

    def init(self, width: int, key: rng.Key) -> Parameters:
        return linear_layers([width, self.head_width or 2 * width, width], key) | prelu_weights(1)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        u, v, u_target, v_target = views
        predict = partial(perceptron, parameters, activation=lambda h: prelu(h, parameters["0.slope"]))
        to_v, to_u = _cosines(predict(u), v_target), _cosines(predict(v), u_target)
        return step.workers.part(2.0) - step.workers.mean(to_v) - step.workers.mean(to_u)


def _cosines(a: Tensor, b: Tensor) -> Tensor:
    return (unit_rows(a) * unit_rows(b)).sum(1)

"""Supervised learning, for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr.nn.layers import Parameters
from clnr.nn.objectives.objective import Objective, StepContext
from clnr.support.lazy import lazy

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.functional import cross_entropy
else:
    cross_entropy = lazy("torch.nn.functional", "cross_entropy")


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross entropy of the training nodes, with the rows as logits; early stopping monitors that of the validation nodes."""

    target: ClassVar[str] = "N-Y"
    supervised: ClassVar[bool] = True
    views: ClassVar[range] = range(1, 2)

    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        assert step.supervision is not None
        return cross_entropy(views[0][step.supervision.train_nodes], step.supervision.train_labels)

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], step: StepContext) -> Tensor:
        assert step.supervision is not None
        return cross_entropy(embedded()[step.supervision.validation_nodes], step.supervision.validation_labels)

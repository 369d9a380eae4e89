"""Learning from labels, for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from clnr.nn.layers import Parameters
from clnr.nn.objectives.objective import Moment, Objective


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross entropy of the training nodes' classes, whose logits are the rows; early stopping watches the validation nodes'."""

    target: ClassVar[str] = "N-Y"
    supervised: ClassVar[bool] = True
    views: ClassVar[range] = range(1, 2)

    def __call__(self, parameters: Parameters, views: list[Tensor], moment: Moment) -> Tensor:
        assert moment.lesson is not None
        return cross_entropy(views[0][moment.lesson.train_nodes], moment.lesson.train_labels)

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], moment: Moment) -> Tensor:
        assert moment.lesson is not None
        return cross_entropy(embedded()[moment.lesson.validation_nodes], moment.lesson.validation_labels)

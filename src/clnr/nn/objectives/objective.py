"""What an objective is, and what it is told."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from clnr import rng
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine import DeviceGraph, Engine

SOME = range(1, sys.maxsize)


class Supervision(NamedTuple):
    """What a supervised objective may know: some nodes and their classes. Test nodes are not among them."""

    train_nodes: Tensor
    train_labels: Tensor
    validation_nodes: Tensor
    validation_labels: Tensor


@dataclass(frozen=True, eq=False)
class StepContext:
    """Where and when: one epoch of one training on one engine; with a lesson only where the objective is supervised.

    The epoch is a number, or a counter on the device, below ``epochs``.
    """

    engine: Engine
    device_graph: DeviceGraph
    seed: int
    epoch: int | Tensor
    epochs: int
    supervision: Supervision | None = None


class Objective(ABC):
    """A loss of the views' rows, with parameters of its own or none.

    What it is like, for the paper's table of architectures:

    Attributes:
        target: What is compared: nodes (N), the graph (G), features (F) or classes (Y).
        estimator: Whether it estimates mutual information by a function that it learns.
        head: Whether it has a projection or prediction head of its own.
        negatives: Whether it needs negative samples.
        supervised: Whether it is given a lesson.
        views: How many it can be given.
    """

    target: ClassVar[str]
    estimator: ClassVar[bool] = False
    head: ClassVar[bool] = False
    negatives: ClassVar[bool] = False
    supervised: ClassVar[bool] = False
    views: ClassVar[range] = SOME

    def init(self, width: int, key: rng.Key) -> Parameters:
        """Fresh parameters for rows of ``width`` numbers; none, unless said otherwise."""
        return {}

    def nodes(self, count: int, step: StepContext) -> Tensor | None:
        """Of ``count`` nodes, those whose rows it is to be given in this epoch; None for all, unless said otherwise."""
        return None

    @abstractmethod
    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        """The loss, given each view's rows."""

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], step: StepContext) -> Tensor:
        """What early stopping watches, and keeps the parameters of the lowest of: the loss itself, unless said otherwise."""
        return loss

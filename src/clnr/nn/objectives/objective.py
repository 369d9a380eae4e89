"""What an objective is, and what it is given."""

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
    """The labels that a supervised objective may see: of training and validation nodes, never of test nodes."""

    train_nodes: Tensor
    train_labels: Tensor
    validation_nodes: Tensor
    validation_labels: Tensor


@dataclass(frozen=True, eq=False)
class StepContext:
    """One step of one training run: its engine, graph, seed and epoch, and the labels where the objective is supervised.

    The epoch is an int, or a counter on the device, below ``epochs``.
    """

    engine: Engine
    device_graph: DeviceGraph
    seed: int
    epoch: int | Tensor
    epochs: int
    supervision: Supervision | None = None


class Objective(ABC):
    """A loss of the views' rows, with or without parameters.

    Attributes:
        target: What is compared: nodes (N), the graph (G), features (F) or classes (Y).
        estimator: Whether it learns an estimator of mutual information.
        head: Whether it has a projection or prediction head.
        negatives: Whether it needs negative samples.
        supervised: Whether it needs labels (``Supervision``).
        views: How many views it accepts.
    """

    target: ClassVar[str]
    estimator: ClassVar[bool] = False
    head: ClassVar[bool] = False
    negatives: ClassVar[bool] = False
    supervised: ClassVar[bool] = False
    views: ClassVar[range] = SOME

    @property
    def sampled_moments(self) -> bool:
        """Whether postprocessing takes the columns' moments over ``nodes`` alone, so that no other rows are needed."""
        return False

    def samples(self, count: int) -> bool:
        """Whether a step needs the rows of only some of so many nodes."""
        return False

    @property
    def max_neighbors(self) -> int:
        """How many neighbours of a node such a step takes, drawn afresh each epoch; 0 for all."""
        return 0

    def init(self, width: int, key: rng.Key) -> Parameters:
        """Initial parameters for rows of this width; by default none."""
        return {}

    def nodes(self, count: int, step: StepContext) -> Tensor | None:
        """The nodes, of ``count``, whose rows it needs in this epoch; None, the default, for all."""
        return None

    @abstractmethod
    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        """The loss, given each view's rows."""

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], step: StepContext) -> Tensor:
        """What early stopping monitors; the parameters with the lowest value are kept. By default the loss."""
        return loss

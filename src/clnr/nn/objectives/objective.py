"""What an objective is, and what it is given."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from clnr import rng
from clnr.nn.hyper_parameters import hyper_parameter
from clnr.nn.layers import Parameters
from clnr.support.processes.workers import ALONE, Workers

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

    The epoch is an int, or a counter on the device, below ``epochs``. Where ``workers`` share the step, an objective is given
    the rows of this one's share of the nodes. What is drawn for many epochs at once is ``kept`` for all steps of the training.
    """

    engine: Engine
    device_graph: DeviceGraph
    seed: int
    epoch: int | Tensor
    epochs: int
    supervision: Supervision | None = None
    workers: Workers = ALONE
    kept: rng.Kept = field(default_factory=dict, repr=False)


class Objective(ABC):
    """A loss of the views' rows, with or without parameters.

    Attributes:
        target: What is compared: nodes (N), the graph (G), features (F) or classes (Y).
        estimator: Whether it learns an estimator of mutual information.
        head: Whether it has a projection or prediction head.
        negatives: Whether it needs negative samples.
        supervised: Whether it needs labels (``Supervision``).
        samples: Whether it can do with the rows of some nodes (``SampledObjective``).
        sampled_loss: Whether some nodes are all that it ever takes.
        all_pairs: Whether each row is compared with all others.
        views: How many views it accepts.
        shares: Whether the workers of a sampled step can each compute a part of it: by ``step.workers``.
        any_encoder: Whether it takes the rows of any encoder, and not only of one that was made for it.
    """

    target: ClassVar[str]
    estimator: ClassVar[bool] = False
    head: ClassVar[bool] = False
    negatives: ClassVar[bool] = False
    supervised: ClassVar[bool] = False
    samples: ClassVar[bool] = False
    sampled_loss: ClassVar[bool] = False
    all_pairs: ClassVar[bool] = False
    views: ClassVar[range] = SOME
    shares: ClassVar[bool] = False
    any_encoder: ClassVar[bool] = True

    @property
    def sampled_moments(self) -> bool:
        """Whether postprocessing takes the columns' moments over ``nodes`` alone, so that no other rows are needed."""
        return False

    def takes_some(self, count: int) -> bool:
        """Whether a step needs the rows of only some of ``count`` nodes."""
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

    def all_nodes(self, count: int, step: StepContext) -> Tensor | None:
        """``nodes`` of all epochs, one row each, where that is known and not too large; by default it is not known."""
        return None

    @abstractmethod
    def __call__(self, parameters: Parameters, views: list[Tensor], step: StepContext) -> Tensor:
        """The loss, given each view's rows; where workers share the step, this one's part of it, given its rows."""

    def criterion(self, loss: Tensor, embedded: Callable[[], Tensor], step: StepContext) -> Tensor:
        """What early stopping monitors; the parameters with the lowest value are kept. By default the loss."""
        return loss


@dataclass(frozen=True, kw_only=True)
class SampledObjective(Objective):
    """A loss that can be taken over a sample of the nodes, drawn afresh each epoch.

    Where ``moments`` are sampled, everything is of these nodes: the loss, and the means and deviations of columns that come
    into it. Where they are those of all nodes, so is the loss, unless it is a ``sampled_loss``. No ``sampled_nodes``, or no
    fewer than the graph has, means all of them.
    """

    sampled_nodes: int = hyper_parameter(
        1024,
        0,
        2**31 - 1,
        "nodes in the loss of NT-Xent, and of others where moments are sampled, drawn afresh each epoch; 0 for all",
        source="paper, table 2",
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

    samples: ClassVar[bool] = True

    @property
    def sampled_moments(self) -> bool:
        return self.moments == "sampled"

    def takes_some(self, count: int) -> bool:
        return self.sampled_moments and 0 < self.sampled_nodes < count

    def nodes(self, count: int, step: StepContext) -> Tensor | None:
        if not (self.sampled_loss or self.sampled_moments) or not 0 < self.sampled_nodes < count:
            return None
        device = step.device_graph.device
        return rng.sample(step.seed, step.epoch, step.epochs, count, self.sampled_nodes, device, step.kept)

    def all_nodes(self, count: int, step: StepContext) -> Tensor | None:
        return rng.samples(step.seed, step.epochs, count, self.sampled_nodes, step.device_graph.device, step.kept)

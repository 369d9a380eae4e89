"""What an encoder is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import HyperParameter
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.nn.lazy_linear import LazyLinear

# What encoders share.
_PAPER = "paper, section 3"
LAYERS = HyperParameter(2, 1, 64, "layers of the encoder", source=_PAPER)
HIDDEN = HyperParameter(512, 1, 65536, "width between layers", source=_PAPER)
DIMENSION = HyperParameter(512, 1, 65536, "width of the embedding", source=_PAPER)


class Encoder(ABC):
    """A function of parameters and a view's operators. Most are a ``PlainEncoder``."""

    asymmetric: ClassVar[bool] = False
    """Whether the two sides that are compared come from different weights, or only one of them learns."""
    samples: ClassVar[bool] = False
    """Whether it asks operators ``within`` how many hops it needs rows, so that some nodes' rows need not cost all of them."""
    pure: ClassVar[bool] = True
    """Whether its rows follow from parameters and view alone: a GPU then runs views side by side, and steps as CUDA graphs."""

    encoders: ClassVar[int] = 1
    """How many encoders' rows it gives of each view."""
    num_outputs: ClassVar[int] = 1
    """How many matrices of one width ``outputs`` has; ``embed`` has them side by side."""

    @property
    def chosen(self) -> Encoder:
        """The encoder that computes: this one, unless a hyper-parameter names another."""
        return self

    @abstractmethod
    def init(self, inputs: int, key: rng.Key) -> Parameters:
        """Fresh parameters for ``inputs`` features, on torch's default device: a pure function of the key."""

    @abstractmethod
    def width(self, inputs: int) -> int:
        """The width of the rows that an objective sees, from ``inputs`` features."""

    @abstractmethod
    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        """What an objective sees of the epoch's view number ``index``, one row per node; of several encoders, each one's rows.

        An objective is given the first encoder's rows of all views, then the second's, and so on.
        """

    @abstractmethod
    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        """The embedding, from the method's deterministic views, without duplicates."""

    @property
    def shifts(self) -> tuple[str, ...]:
        """Names of the parameters that do nothing but add a constant to a column of its rows."""
        return ()

    @property
    def own_outputs(self) -> tuple[int, ...]:
        """Which of its ``outputs`` come from nodes' own features alone, without edges."""
        return ()

    def learns(self, name: str) -> bool:
        """Whether gradients change one of its parameters."""
        return True

    def notes(self, weighted: bool) -> list[str]:
        """What to know of it before it is trained, with edges that have weights or not, a line each."""
        return []

    def training(self, key: rng.Key, device: torch.device) -> AbstractContextManager[None]:
        """In this block it gives the ``rows`` of a step of training; the key is the step's."""
        return nullcontext()

    def outputs(self, parameters: Parameters, eval_views: list[Operators]) -> list[Tensor]:
        """The embedding; of several encoders, each one's, for a read-out that scales them by themselves."""
        return [self.embed(parameters, eval_views)]

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        """After training: the parameters, with what embedding needs of the unperturbed training graph, if anything."""
        return parameters

    def update_ema(self, parameters: Parameters, epoch: int | Tensor, epochs: int) -> None:  # noqa: B027
        """After a step of training: update in place what is not learned by gradients."""


@dataclass(frozen=True)
class Layered:
    """The hyper-parameters of encoders of several layers, the last of which has the width of their rows."""

    layers: int = LAYERS.field()
    hidden: int = HIDDEN.field()
    dimension: int = DIMENSION.field()

    def width(self, inputs: int) -> int:
        return self.dimension


class PlainEncoder(Encoder):
    """An encoder that treats every view, and the whole graph, in the same way."""

    @abstractmethod
    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        """One row per node."""

    def lazy(self, parameters: Parameters, operators: Operators) -> LazyLinear:
        """The same rows, the last layer not yet computed where it is linear."""
        from clnr.nn.lazy_linear import LazyLinear

        return LazyLinear(self(parameters, operators), dense=operators.dense)

    def rows(self, parameters: Parameters, operators: Operators, index: int) -> list[LazyLinear]:
        return [self.lazy(parameters, operators)]

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        return self(parameters, eval_views[0])


class BatchNormEncoder(PlainEncoder):
    """One with batch normalisation, which writes what ``layers.batch_norm`` measures into ``statistics``, if given.

    While training, a batch is all nodes of the view, or those that a sampled step needs at this layer. To embed,
    the statistics are those of the unperturbed training graph, which ``finalize`` keeps beside the weights.
    """

    @abstractmethod
    def lazy(self, parameters: Parameters, operators: Operators, statistics: Parameters | None = None) -> LazyLinear: ...

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return self.lazy(parameters, operators).materialize()

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        statistics: Parameters = {}
        self.lazy(parameters, eval_views[0], statistics)
        return parameters | statistics


@dataclass(frozen=True)
class Features(PlainEncoder):
    """No encoder: the features themselves."""

    samples: ClassVar[bool] = True

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        return {}

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return operators.within(0).features

    def width(self, inputs: int) -> int:
        return inputs

    @property
    def own_outputs(self) -> tuple[int, ...]:
        return (0,)


@dataclass(frozen=True)
class NoEncoder(PlainEncoder):
    """Nothing: a read-out makes the embedding from features and edges alone."""

    num_outputs: ClassVar[int] = 0

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        return {}

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        import torch

        device_graph = operators.view.device_graph
        return torch.empty(device_graph.graph.num_nodes, 0, device=device_graph.device)

    def outputs(self, parameters: Parameters, eval_views: list[Operators]) -> list[Tensor]:
        return []

    def width(self, inputs: int) -> int:
        return 0

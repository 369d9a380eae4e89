"""What an encoder is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.hyper_parameters import HyperParameter
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine import Operators
    from clnr.nn.lazy_linear import Rows

# What encoders share.
_PAPER = "paper, section 3"
LAYERS = HyperParameter(2, 1, 64, "layers of the encoder", source=_PAPER)
HIDDEN = HyperParameter(512, 1, 65536, "width between layers", source=_PAPER)
DIMENSION = HyperParameter(512, 1, 65536, "width of the embedding", source=_PAPER)


class Encoder(ABC):
    """A function of parameters and the operators of views. Most see one view at a time: those are ``PlainEncoder``."""

    asymmetric: ClassVar[bool] = False
    """Whether the two sides of what is compared come from different weights, or only one of them learns."""

    @abstractmethod
    def init(self, inputs: int, key: rng.Key) -> Parameters:
        """Fresh parameters for ``inputs`` features, on torch's default device: a pure function of the key."""

    @abstractmethod
    def width(self, inputs: int) -> int:
        """How many numbers the rows have that an objective sees, from ``inputs`` features."""

    @abstractmethod
    def rows(self, parameters: Parameters, views: list[Operators]) -> list[Rows]:
        """What an objective sees of all views of an epoch, one row per node."""

    @abstractmethod
    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        """The embedding, from the method's views with nothing random about them, each once."""

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        """After training: parameters with what embedding needs to know of the unperturbed training graph, if anything."""
        return parameters

    def update_ema(self, parameters: Parameters, epoch: int | Tensor, epochs: int) -> None:  # noqa: B027
        """After one of so many steps of training: change in place what no gradient changes."""


class PlainEncoder(Encoder):
    """An encoder that does the same with every view, and embeds the whole graph as it would a view."""

    @abstractmethod
    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        """One row per node."""

    def unformed(self, parameters: Parameters, operators: Operators) -> Rows:
        """The same rows, not yet formed where the last layer is linear: what is not read of them need not be."""
        return self(parameters, operators)

    def rows(self, parameters: Parameters, views: list[Operators]) -> list[Rows]:
        rows = []
        for view in views:
            with view.lane:
                rows.append(self.unformed(parameters, view))
        return rows

    def embed(self, parameters: Parameters, eval_views: list[Operators]) -> Tensor:
        return self(parameters, eval_views[0])


class BatchNormEncoder(PlainEncoder):
    """A plain encoder with batch normalisation.

    While training, a batch is all nodes of the view. To embed, the statistics are those of the whole unperturbed training
    graph, which ``settle`` computes once and keeps beside the weights.
    """

    @abstractmethod
    def forward(self, parameters: Parameters, operators: Operators, statistics: Parameters | None) -> Tensor:
        """One row per node; what ``layers.batch_norm`` measures is noted in ``statistics`` where that is given."""

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return self.forward(parameters, operators, None)

    def finalize(self, parameters: Parameters, eval_views: list[Operators]) -> Parameters:
        statistics: Parameters = {}
        self.forward(parameters, eval_views[0], statistics)
        return parameters | statistics


@dataclass(frozen=True)
class Features(PlainEncoder):
    """No encoder: the features themselves."""

    def init(self, inputs: int, key: rng.Key) -> Parameters:
        return {}

    def __call__(self, parameters: Parameters, operators: Operators) -> Tensor:
        return operators.features

    def width(self, inputs: int) -> int:
        return inputs

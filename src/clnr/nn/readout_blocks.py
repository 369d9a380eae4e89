"""The blocks of columns that a read-out puts side by side, and what they are made from."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from clnr import rng
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.hyper_parameters import HyperParameter, hyper_parameter
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import Engine, View
    from clnr.graph.csr import Array

Measure = Callable[[tuple[int, ...]], float]
"""What columns that come from edges should weigh, by the matrices with these numbers, which come from nodes alone."""
MOST_INNER_PRODUCTS = 1024
"""The most features whose principal directions are found by the inner products of all of them; else by subspace iteration."""
FITTED_NODES = 1 << 15
"""The size of the uniform sample of nodes that a read-out is fitted on."""
ITERATED_NODES, ITERATED_NEIGHBORS = 1 << 13, 8
"""Where nodes are more than that: how many of them, and neighbours of each, direct many propagated features."""
_REDUCED = HyperParameter(
    256, 0, 65536, "directions kept of features in the read-out, never below dimension; 0 for no features"
)


def fitted_nodes(count: int, most: int | None = None) -> Tensor:
    """The nodes that stand for all where a read-out is fitted, sorted: the same at every call; or ``most`` of them."""
    import torch

    return rng.permute(rng.key(0, "read-out"), torch.arange(min(count, most or FITTED_NODES)), count).sort().values


class Source(NamedTuple):
    """What the rows of a matrix of a block come from, before they are propagated: an encoder's output, walks, or features.

    Walks are side by side, ``walk_columns`` each; ``unit`` rows are scaled to length 1.
    """

    encoder: int | None = None
    walk_columns: int = 0
    unit: bool = False


class Family(enum.Enum):
    """The kind of information in the columns of a matrix."""

    FEATURES = "features"
    OWN = "a node's own encoded features"
    PROPAGATED = "propagated features"
    NEIGHBORS = "neighbors' encoded features"
    WALKS = "walks"

    @property
    def of_node(self) -> bool:
        """Whether edges have no part in it."""
        return self in (Family.FEATURES, Family.OWN)


class Product(NamedTuple):
    r"""A matrix of a block, :math:`\hat A^h S W`: a source, a weight unless it is the identity, and how often to propagate."""

    source: Source
    hops: int = 0
    weight: Tensor | None = None

    def family(self, own: Collection[int]) -> Family:
        """The family of its columns, given which encoder outputs depend only on nodes' own features."""
        encoder = self.source.encoder
        if self.source.walk_columns:
            return Family.WALKS
        if self.hops or (encoder is not None and encoder not in own):
            return Family.PROPAGATED if encoder is None else Family.NEIGHBORS
        return Family.FEATURES if encoder is None else Family.OWN


class Rows(ABC):
    """The rows that matrices of a read-out are products with: features, each encoder's outputs, and walks.

    Those of all nodes are added up to vectors, and those of a sample are looked at to fit the read-out, or to try others.

    Attributes:
        num_features: How many features a node has.
        num_outputs: How many outputs the encoders have.
        own: Those outputs that come from nodes' own features alone.
        device: Where it is computed.
        sample: The nodes of the sample, sorted; None for all.
        fitted: The places in the sample of the nodes that stand for all.
    """

    num_features: int
    num_outputs: int
    own: Collection[int]
    device: torch.device
    sample: Array | None
    fitted: Tensor | slice = slice(None)

    def places(self, nodes: Array) -> Tensor:
        """Where some nodes are in the sample."""
        import numpy as np
        import torch

        places = nodes if self.sample is None else np.searchsorted(self.sample, nodes)
        return torch.from_numpy(places).to(self.device)

    @abstractmethod
    def width(self, encoder: int) -> int:
        """How many columns an output has."""

    @abstractmethod
    def matrices(self, products: Sequence[Product]) -> list[Tensor]:
        """The rows of the sample in matrices of blocks."""

    @abstractmethod
    def iterated_directions(self, block: ReducedFeatures) -> Tensor:
        """What ``block.iterated_directions`` finds."""

    @abstractmethod
    def measure(self, products: Sequence[Product]) -> float:
        """What edges should weigh, by matrices that come from nodes' own features alone."""

    @abstractmethod
    def add_up(self, hop: int, terms: dict[Source, Tensor], bias: Tensor | None, before: Any) -> Any:
        """Rows of sources times a weight each, and a bias, added to what was added up ``before``, propagated once.

        ``hop`` is the number of propagations still to come; after the last, the sums are vectors.
        """

    def directions(self, block: ReducedFeatures) -> Tensor:
        """The principal directions of a block's features, by the nodes that stand for all."""
        from clnr.nn.low_rank import principal_axes

        if block.iterates(self.num_features):
            return self.iterated_directions(block)
        (features,) = self.matrices([Product(Source(), block.steps)])
        return principal_axes(features[self.fitted], block.count, block.key)


class Block:
    """Columns of the embedding before it is reduced; ``size`` is the root mean square length of its rows beside the others'."""

    size: ClassVar[float] = 1.0

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        """The number of columns of each of its matrices, given the number of features and of each encoder output's columns."""
        return []

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        """These matrices as products, given the number of the encoder's outputs."""
        return []

    def fit(self, rows: Rows) -> Parameters:
        """What is learned from the training graph; by default nothing."""
        return {}

    def weigh(self, sizes: list[float], families: list[Family], measure: Measure) -> tuple[list[float], Parameters]:
        """As ``Readout.weigh``; by default all keep their sizes."""
        return sizes, {}

    def remarks(self, parameters: Parameters) -> list[str]:
        """What a user should know of what was learned, a line each."""
        return []


@dataclass(frozen=True)
class Hops(Block):
    r"""The encoders' output, propagated 0, 1, ... and ``hops`` times: :math:`Z, \hat A Z, \hat A^2 Z, ...`"""

    hops: int = hyper_parameter(2, 0, 64, "how often the encoder's output is propagated for the read-out", source="ours")

    hop_rows: str = hyper_parameter(
        "plain", choices=("plain", "unit"), meaning="the encoder's rows as they are, or scaled to length 1", source="ours"
    )

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [width for width in outputs for _ in range(self.hops + 1)]

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        sources = [Source(encoder, unit=self.hop_rows == "unit") for encoder in range(outputs)]
        return [Product(source, hops) for source in sources for hops in range(self.hops + 1)]


@dataclass(frozen=True)
class ReducedFeatures(Block):
    """Propagated features, reduced to the principal directions of the training graph's."""

    reduced: int = _REDUCED.field()
    dimension: int = DIMENSION.field()

    steps: ClassVar[int]

    def fit(self, rows: Rows) -> Parameters:
        return {"directions": rows.directions(self)} if self.reduced else {}

    def iterates(self, features: int) -> bool:
        """Whether so many features are reduced by ``iterated_directions``."""
        return self.reduced > 0 and features > MOST_INNER_PRODUCTS

    def iterated_directions(self, engine: Engine, view: View) -> Tensor:
        """The same of many features, in memory or in files: by products with the rows of the nodes that stand for all.

        Of more nodes than these, propagated features are those of ``ITERATED_NODES``, after one step along some of their
        edges. Two steps reach eight times as many nodes, and give no better scores.
        """
        from clnr.engine import Neighbors
        from clnr.nn.low_rank import principal_directions

        count, steps, most = view.device_graph.graph.num_nodes, self.steps, FITTED_NODES
        if steps and count > most:
            steps, most = 1, ITERATED_NODES
            view = view.but(neighbors=Neighbors(rng.key(0, "read-out", "neighbors"), ITERATED_NEIGHBORS))
        operators = engine.sampled_operators(view, fitted_nodes(count, most).to(engine.device))
        maps = [operators.within(hops) for hops in range(steps + 1)]

        def multiply(weight: Tensor) -> Tensor:
            rows = maps[steps].project(weight)
            for each in maps[:0:-1]:
                rows = each.propagate(rows)
            return rows

        return principal_directions(multiply, view.device_graph.num_features, self.count, self.key, engine.device)

    @property
    def count(self) -> int:
        """How many directions there are, unless features are fewer."""
        return max(self.reduced, self.dimension)

    @property
    def key(self) -> rng.Key:
        return rng.key(0, "reduced", type(self).__name__)

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [min(inputs, self.count)] if self.reduced else []

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        return [Product(Source(), self.steps, parameters.get("directions"))] if self.reduced else []


@dataclass(frozen=True)
class OwnFeatures(ReducedFeatures):
    """The node's own features X, reduced by an SVD."""

    steps: ClassVar[int] = 0


@dataclass(frozen=True)
class PropagatedFeatures(ReducedFeatures):
    r"""The features after two steps of propagation, :math:`\hat A^2 X`, reduced by an SVD."""

    steps: ClassVar[int] = 2


@dataclass(frozen=True)
class FeatureHops(OwnFeatures):
    r"""The features reduced by an SVD, S, and then propagated: :math:`S, \hat A S, \hat A^2 S`."""

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return 3 * super().widths(inputs, outputs)

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        own = super().products(parameters, outputs)
        return [each._replace(hops=hops) for each in own for hops in range(3)]

"""The blocks of columns that a read-out puts side by side, and what they are made from."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from clnr import rng
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.hyper_parameters import HyperParameter, hyper_parameter
from clnr.nn.layers import Parameters
from clnr.nn.low_rank import principal_axes, principal_directions
from clnr.nn.structure import STEPS, walks
from clnr.support.lazy import lazy
from clnr.support.processes.workers import ALONE, Workers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import DeviceGraph, Engine, Operators, View, unit_rows
    from clnr.engine.streams import IdentityKey
else:
    torch = lazy("torch")
    unit_rows = lazy("clnr.engine", "unit_rows")
    IdentityKey = lazy("clnr.engine.streams", "IdentityKey")

Matrix = TypeVar("Matrix")
MOST_INNER_PRODUCTS = 1024
"""Up to so many features, their principal directions are found by the inner products of all of them."""
FITTED_NODES = 1 << 15
"""So many nodes, drawn uniformly, stand for all where a read-out is fitted."""
_COLUMNS = 256
_NEARLY_EQUAL = 0.95
_REDUCED = HyperParameter(
    256, 0, 65536, "directions kept of features in the read-out, never below dimension; 0 for no features"
)


class ReadoutContext(NamedTuple):
    """What blocks are made from: a graph, and each encoder's output. Those that are ``own`` come from nodes' features alone.

    The engine computes in float32.
    """

    engine: Engine
    view: View
    encoded: Sequence[Tensor]
    own: Collection[int] = ()

    @property
    def operators(self) -> Operators:
        """The linear maps of the view."""
        return self.engine.operators(self.view)

    @property
    def device_graph(self) -> DeviceGraph:
        return self.view.device_graph

    @property
    def fitted_nodes(self) -> Tensor | slice:
        """The nodes that stand for all."""
        count = self.device_graph.graph.num_nodes
        return slice(None) if count <= FITTED_NODES else fitted_nodes(count).to(self.engine.device)


def fitted_nodes(count: int) -> Tensor:
    """The nodes that stand for all where a read-out is fitted, sorted: the same at every call."""
    return rng.permute(rng.key(0, "read-out"), torch.arange(min(count, FITTED_NODES)), count).sort().values


class Source(NamedTuple):
    """What the rows of a matrix of a block come from, before they are propagated: an encoder's output, walks, or features.

    Walks are side by side, of so many columns each; ``unit`` rows are scaled to length 1.
    """

    encoder: int | None = None
    walk_columns: int = 0
    unit: bool = False


class Product(NamedTuple):
    r"""A matrix of a block, :math:`\hat A^h S W`: a source, a weight unless it is the identity, and how often to propagate."""

    source: Source
    hops: int = 0
    weight: Tensor | None = None

    def of_node(self, own: Collection[int]) -> bool:
        """Whether it comes from nodes' own features alone, given which encoders' outputs do."""
        return not self.hops and not self.source.walk_columns and (self.source.encoder is None or self.source.encoder in own)


class Block(ABC):
    """Columns of the embedding before it is reduced; ``size`` is the root mean square length of its rows beside the others'."""

    size: ClassVar[float] = 1.0

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        """How many columns each of its matrices has, from so many features and encoders' outputs of so many columns."""
        return []

    def products(self, parameters: Parameters, outputs: int) -> list[Product] | None:
        """The same matrices as products, from so many encoders' outputs: what is read out from files. None: it cannot be."""
        return None

    def fit(self, context: ReadoutContext) -> Parameters:
        """What is learned from the training graph; by default nothing."""
        return {}

    def weigh(
        self, matrices: list[tuple[float, Matrix]], of_node: list[bool], measure: Callable[[list[Matrix]], float]
    ) -> tuple[list[tuple[float, Matrix]], Parameters]:
        """As ``Readout.weigh``; by default all keep their sizes."""
        return matrices, {}

    def remarks(self, parameters: Parameters) -> list[str]:
        """What a user should know of what was learned, a line each."""
        return []

    @abstractmethod
    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        """Its matrices, each centred and scaled by itself."""


def _hops(operators: Operators, rows: Tensor, count: int) -> list[Tensor]:
    """Rows propagated 0, 1, ... and ``count`` times."""
    hops = [rows]
    for _ in range(count):
        hops.append(operators.propagate(hops[-1]))
    return hops


@dataclass(frozen=True)
class Hops(Block):
    r"""The encoders' output, propagated 0, 1, ... and ``hops`` times: :math:`Z, \hat A Z, \hat A^2 Z, ...`"""

    hops: int = hyper_parameter(2, 0, 64, "how often the encoder's output is propagated for the read-out", source="ours")

    hop_rows: str = hyper_parameter(
        "plain", choices=("plain", "unit"), meaning="the encoder's rows as they are, or scaled to length 1", source="ours"
    )

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        scaled = unit_rows if self.hop_rows == "unit" else lambda rows: rows
        return [rows for encoded in context.encoded for rows in _hops(context.operators, scaled(encoded), self.hops)]

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [width for width in outputs for _ in range(self.hops + 1)]

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        sources = [Source(encoder, unit=self.hop_rows == "unit") for encoder in range(outputs)]
        return [Product(source, hops) for source in sources for hops in range(self.hops + 1)]


@dataclass(frozen=True)
class ReducedFeatures(Block):
    """Features propagated so many times, reduced to the principal directions of the training graph's."""

    reduced: int = _REDUCED.field()
    dimension: int = DIMENSION.field()

    steps: ClassVar[int]

    def map(self, operators: Operators, weight: Tensor) -> Tensor:
        """The product of the propagated features and a weight."""
        return _hops(operators, operators.project(weight), self.steps)[-1]

    def fit(self, context: ReadoutContext) -> Parameters:
        if not self.reduced:
            return {}
        operators, width = context.operators, context.device_graph.features.shape[1]

        def directions() -> Tensor:
            if width <= MOST_INNER_PRODUCTS:
                return self.directions(self._some_rows(context, width), context.engine.workers)
            map_ = functools.partial(self.map, operators)
            return principal_directions(map_, width, self._count, self._key, context.engine.device)

        # Methods with the same features share it.
        return {"directions": context.device_graph.once(("directions", type(self).__name__, self._count), directions)}

    def _some_rows(self, context: ReadoutContext, width: int) -> Tensor:
        """The propagated features of the nodes that stand for all, some columns at a time."""
        nodes, x, parts = context.fitted_nodes, context.device_graph.features, []
        for start in range(0, width, _COLUMNS):
            stop = min(start + _COLUMNS, width)
            if isinstance(x, torch.Tensor):
                columns = x[:, start:stop]
            else:
                columns = context.operators.project(torch.eye(width, device=context.engine.device)[:, start:stop])
            parts.append(_hops(context.operators, columns, self.steps)[-1][nodes])
        return torch.cat(parts, 1)

    def directions(self, rows: Tensor, workers: Workers = ALONE) -> Tensor:
        """The principal directions, given the propagated features of the nodes that stand for all, which workers share."""
        return principal_axes(rows, self._count, self._key, workers)

    @property
    def _count(self) -> int:
        return max(self.reduced, self.dimension)

    @property
    def _key(self) -> rng.Key:
        return rng.key(0, "reduced", type(self).__name__)

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [min(inputs, self._count)] if self.reduced else []

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        if not self.reduced:
            return []
        directions = parameters["directions"]
        if not context.view.is_whole:
            return [self.map(context.operators, directions)]
        # On the graph that these were found on, they are asked for again, and by several methods.
        asker = type(self).__name__, IdentityKey(directions)
        return [context.device_graph.once(asker, lambda: self.map(context.operators, directions))]

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

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        return [rows for own in super().__call__(parameters, context) for rows in _hops(context.operators, own, 2)]

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        own = super().products(parameters, outputs)
        return [each._replace(hops=hops) for each in own for hops in range(3)]


@dataclass(frozen=True)
class Walks(Block):
    """Where walks of 4, 8 and 16 steps lead, from edges alone."""

    size: ClassVar[float] = 0.7

    walk_columns: int = hyper_parameter(
        128, 0, 65536, "columns from edges alone, for each of 4, 8 and 16 steps, in the read-out; 0 for none"
    )

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [len(STEPS) * self.walk_columns] if self.walk_columns else []

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        if not self.walk_columns:
            return []
        return [torch.cat(walks(context.engine, context.device_graph, self.walk_columns, STEPS), 1)]

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        return [Product(Source(walk_columns=self.walk_columns))] if self.walk_columns else []


@dataclass(frozen=True)
class EdgeWeight(Block):
    """No columns: what matrices that come from edges weigh beside those that come from nodes' own features."""

    edge_weight: str = hyper_parameter(
        "equal",
        choices=("equal", "measured"),
        meaning="what columns that come from edges weigh in the read-out: as much as others, or as much as edges tell",
        source="ours",
    )

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        return []

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        return []

    def weigh(
        self, matrices: list[tuple[float, Matrix]], of_node: list[bool], measure: Callable[[list[Matrix]], float]
    ) -> tuple[list[tuple[float, Matrix]], Parameters]:
        if self.edge_weight == "equal":
            return matrices, {}
        weight = 1.0
        if any(of_node) and not all(of_node):
            weight = measure([each for (_, each), own in zip(matrices, of_node, strict=True) if own])
            matrices = [(size if own else weight * size, each) for (size, each), own in zip(matrices, of_node, strict=True)]
        return matrices, {"weight": torch.tensor(weight)}

    def remarks(self, parameters: Parameters) -> list[str]:
        weight = float(parameters.get("weight", 1.0))
        if weight > _NEARLY_EQUAL:
            return []
        return [
            f"edges tell little about the nodes here, so they weigh {weight:.2f} in the vectors, and a node's own features 1; "
            "--set edge_weight=equal weighs both alike"
        ]

"""Read-out: which blocks of columns make the embedding, and how they are reduced to its dimension."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from clnr import rng
from clnr.errors import RecipeError
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.hyper_parameters import HyperParameter, hyper_parameter
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.low_rank import orthonormal, principal_directions
from clnr.nn.structure import STEPS, walks
from clnr.support.lazy import lazy
from clnr.support.processes.workers import ALONE, Workers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.engine import DeviceGraph, Engine, Operators, View, unit_rows
    from clnr.graph.csr import Array
    from clnr.nn.edge_information import edge_weight
else:
    torch = lazy("torch")
    unit_rows = lazy("clnr.engine", "unit_rows")
    edge_weight = lazy("clnr.nn.edge_information", "edge_weight")

Made = TypeVar("Made")
ROWS = 1 << 13
_NEARLY_EQUAL = 0.95
_REDUCED = HyperParameter(
    256, 0, 65536, "directions kept of features in the read-out, never below dimension; 0 for no features"
)


class ReadoutContext(NamedTuple):
    """What blocks are made from.

    Attributes:
        engine: Where to compute, in float32.
        view: The graph, or a view of it.
        encoded: The output of each encoder.
        own: Which of these come from nodes' own features alone, without edges.
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


class Source(NamedTuple):
    """What the rows of a matrix of a block come from, before they are propagated.

    Attributes:
        encoder: Which encoder's output they are; None for features, or walks.
        walk_columns: Of each of the walks that are side by side; 0 if it is none.
        unit: Whether rows are scaled to length 1.
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
    """Columns of the embedding before it is reduced.

    Attributes:
        size: The root mean square length of its rows beside the other blocks'.
    """

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
        self, made: list[tuple[float, Made]], of_node: list[bool], measure: Callable[[list[Made]], float]
    ) -> tuple[list[tuple[float, Made]], Parameters]:
        """As ``Readout.weigh``; by default all keep their sizes."""
        return made, {}

    def remarks(self, parameters: Parameters) -> list[str]:
        """What a user should know of what was learned, a line each."""
        return []

    @abstractmethod
    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        """Its matrices, each centred and scaled by itself."""


def _hops(operators: Operators, rows: Tensor, count: int) -> list[Tensor]:
    """Rows propagated 0, 1, ... and ``count`` times."""
    found = [rows]
    for _ in range(count):
        found.append(operators.propagate(found[-1]))
    return found


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


class ReducedFeatures(Block):
    """Features propagated so many times, reduced to the principal directions of the training graph's."""

    steps: ClassVar[int]
    reduced: int
    dimension: int

    def map(self, operators: Operators, weight: Tensor) -> Tensor:
        """The product of the propagated features and a weight."""
        return _hops(operators, operators.project(weight), self.steps)[-1]

    def fit(self, context: ReadoutContext) -> Parameters:
        def apply(directions: Tensor) -> Tensor:
            return self.map(context.operators, directions)

        return self._fit(apply, context.device_graph.features.shape[1], context.engine.device)

    def fit_inner_products(self, inner: Tensor) -> Parameters:
        """``fit`` from the inner products of all columns of the propagated features, in float64."""
        values, vectors = torch.linalg.eigh(inner)
        root = (vectors * values.clamp(min=0).sqrt()).T.to(torch.float32)
        return self._fit(lambda directions: root @ directions, len(inner), inner.device)

    def _fit(self, apply: Callable[[Tensor], Tensor], width: int, device: torch.device) -> Parameters:
        if not self.reduced:
            return {}
        key = rng.key(0, "reduced", type(self).__name__)
        return {"directions": principal_directions(apply, width, max(self.reduced, self.dimension), key, device)}

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        return [min(inputs, max(self.reduced, self.dimension))] if self.reduced else []

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        return [self.map(context.operators, parameters["directions"])] if self.reduced else []

    def products(self, parameters: Parameters, outputs: int) -> list[Product]:
        return [Product(Source(), self.steps, parameters.get("directions"))] if self.reduced else []


@dataclass(frozen=True)
class OwnFeatures(ReducedFeatures):
    """The node's own features X, reduced by an SVD."""

    reduced: int = _REDUCED.field()
    dimension: int = DIMENSION.field()

    steps: ClassVar[int] = 0


@dataclass(frozen=True)
class PropagatedFeatures(ReducedFeatures):
    r"""The features after two steps of propagation, :math:`\hat A^2 X`, reduced by an SVD."""

    reduced: int = _REDUCED.field()
    dimension: int = DIMENSION.field()

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
        self, made: list[tuple[float, Made]], of_node: list[bool], measure: Callable[[list[Made]], float]
    ) -> tuple[list[tuple[float, Made]], Parameters]:
        if self.edge_weight == "equal":
            return made, {}
        weight = 1.0
        if any(of_node) and not all(of_node):
            weight = measure([each for (_, each), own in zip(made, of_node, strict=True) if own])
            made = [(size if own else weight * size, each) for (size, each), own in zip(made, of_node, strict=True)]
        return made, {"weight": torch.tensor(weight)}

    def remarks(self, parameters: Parameters) -> list[str]:
        weight = float(parameters.get("weight", 1.0))
        if weight > _NEARLY_EQUAL:
            return []
        return [
            f"edges tell little about the nodes here, so they weigh {weight:.2f} in the vectors, and a node's own features 1; "
            "--set edge_weight=equal weighs both alike"
        ]


@dataclass(frozen=True)
class Readout:
    """The embedding: blocks side by side, each centred and scaled, reduced to ``dimension`` principal components.

    The components are then rotated by a fixed random rotation. It changes no distance and no angle, and gives all columns
    about the same variance, so that standardising them, as many do first, does not inflate the least of the components. The
    root mean square length of the training nodes' rows is that of standardised ones, the root of the dimension.
    """

    blocks: tuple[Block, ...] = ()
    dimension: int = DIMENSION.field()

    def fit(self, context: ReadoutContext) -> Parameters:
        """Everything that embedding needs, learned from the training graph."""
        parameters: Parameters = {}
        for place, block in self.places():
            parameters |= add_prefix(place, block.fit(context))
        graph = context.device_graph.graph

        def measure(own: list[Tensor]) -> float:
            reads = [functools.partial(_rows_of, matrix) for matrix in own]
            return edge_weight(graph.draw_neighbours, reads, graph.num_nodes)

        made = list(self._made(parameters, context))
        made, learned = self.weigh(made, self.of_node(len(context.encoded), context.own), measure)
        return parameters | learned | self.fit_components(made, context.engine.device, context.engine.workers)

    def of_node(self, outputs: int, own: Collection[int]) -> list[bool]:
        """For each of the blocks' matrices, whether it comes from nodes' own features alone; [] where a block does not tell.

        Args:
            outputs: How many encoders' outputs there are.
            own: Which of these come from nodes' own features alone.
        """
        products = [block.products({}, outputs) for block in self.blocks]
        return [] if None in products else [each.of_node(own) for some in products for each in some or []]

    def weigh(
        self, made: list[tuple[float, Made]], of_node: list[bool], measure: Callable[[list[Made]], float]
    ) -> tuple[list[tuple[float, Made]], Parameters]:
        """The blocks' matrices with the sizes that blocks give to them all, and what these learned of that.

        Args:
            made: The size of each one's block, and the matrix or what stands for it.
            of_node: As ``of_node`` returns it.
            measure: What matrices that come from edges should weigh, by those that come from nodes' own features.
        """
        parameters: Parameters = {}
        for place, block in self.places():
            made, learned = block.weigh(made, of_node, measure)
            parameters |= add_prefix(place, learned)
        return made, parameters

    def fit_components(self, made: list[tuple[float, Tensor]], device: torch.device, workers: Workers = ALONE) -> Parameters:
        """The map of the blocks' matrices to the embedding, learned from rows of these; each has the size of its block.

        Where ``workers`` have the same rows, they share the work.
        """
        if not made:
            raise RecipeError("the read-out has no columns; reduced must be above 0 where features are all that is read out")
        means = [matrix.mean(0) if len(matrix) else matrix.sum(0) for _, matrix in made]
        scales = [size / _length(matrix, mean) for (size, matrix), mean in zip(made, means, strict=True)]
        mean = torch.cat(means)
        scale = torch.cat([factor.expand(len(each)) for factor, each in zip(scales, means, strict=True)])
        covariance = _covariance([matrix for _, matrix in made], mean, scale, workers)
        directions = principal_directions(
            lambda weight: covariance @ weight, len(mean), self.dimension, rng.key(0, "components"), device
        )
        count = directions.shape[1]
        total = ((covariance @ directions) * directions).sum()
        size = torch.where(total > 0, self.dimension / total, 1).sqrt()
        rotation = orthonormal(rng.normal(rng.key(0, "rotation"), count * count, device).reshape(count, count))
        weight = size * scale[:, None] * (directions @ rotation)
        return {"weight": weight, "bias": -(mean @ weight)}

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> Tensor:
        """One row per node."""
        weight, rows = parameters["weight"], parameters["bias"]
        begin, count, workers = 0, context.device_graph.graph.num_nodes, context.engine.workers
        own = workers.own_rows(count)
        # Block by block, so that they need not all be in memory at once.
        for _, matrix in self._made(parameters, context):
            rows = rows + matrix[own] @ weight[begin : begin + matrix.shape[1]]
            begin += matrix.shape[1]
        return workers.all_gather_rows(rows, count)

    def _made(self, parameters: Parameters, context: ReadoutContext) -> Iterator[tuple[float, Tensor]]:
        for place, block in self.places():
            for matrix in block(sub_dict(parameters, place), context):
                yield block.size, matrix.to(torch.float32)

    def products(self, parameters: Parameters, outputs: int) -> list[tuple[float, Product]]:
        """The blocks' matrices as products, each with the size of its block; all blocks must have them."""
        made = [(block.size, block.products(sub_dict(parameters, place), outputs)) for place, block in self.places()]
        return [(size, product) for size, products in made for product in products or []]

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        """How many columns each of the blocks' matrices has, as ``Block.widths``."""
        return [width for block in self.blocks for width in block.widths(inputs, outputs)]

    def remarks(self, parameters: Parameters) -> list[str]:
        """What a user should know of what was learned, a line each."""
        return [line for place, block in self.places() for line in block.remarks(sub_dict(parameters, place))]

    def places(self) -> list[tuple[str, Block]]:
        """The blocks, and where each has its parameters."""
        return [(f"block.{index}", block) for index, block in enumerate(self.blocks)]


def _rows_of(matrix: Tensor, nodes: Array) -> Tensor:
    return matrix[torch.from_numpy(nodes).to(matrix.device)]


def _length(matrix: Tensor, mean: Tensor) -> Tensor:
    """The root mean square length of centred rows; infinite where they are all equal, up to rounding."""
    length, offset = (torch.linalg.vector_norm(each, dtype=torch.float64) for each in (matrix - mean, mean))
    length = length / max(1, len(matrix)) ** 0.5
    return torch.where(length > 1e-5 * offset, length, torch.inf).to(torch.float32)


def _covariance(matrices: list[Tensor], mean: Tensor, scale: Tensor, workers: Workers) -> Tensor:
    """Of the columns side by side, centred and scaled; in blocks of rows, so that they are never all side by side."""
    covariance = torch.zeros(len(mean), len(mean), device=mean.device)
    count = len(matrices[0])
    for begin in range(workers.rank * ROWS, count, workers.size * ROWS):
        rows = (torch.cat([matrix[begin : begin + ROWS] for matrix in matrices], 1) - mean) * scale
        covariance.addmm_(rows.T, rows, alpha=1 / count)
    return workers.all_reduce(covariance)[0]

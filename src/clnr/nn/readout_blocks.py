"""The blocks of columns that a read-out puts side by side, and what they are made from."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from clnr import rng
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.hyper_parameters import HyperParameter, hyper_parameter
from clnr.nn.inputs import STEPS
from clnr.nn.layers import Parameters

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.engine import DeviceGraph, Engine, Operators, View
    from clnr.engine.streams import IdentityKey

Measure = Callable[[tuple[int, ...]], float]
"""What columns that come from edges should weigh, by the matrices with these numbers, which come from nodes alone."""
MOST_INNER_PRODUCTS = 1024
"""The most features whose principal directions are found by the inner products of all of them; else by subspace iteration."""
FITTED_NODES = 1 << 15
"""The size of the uniform sample of nodes that a read-out is fitted on."""
ITERATED_NODES, ITERATED_NEIGHBORS = 1 << 13, 8
"""Where nodes are more than that: how many of them, and neighbours of each, direct many propagated features."""
_COLUMNS = 256
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
    OTHER = "others"

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


@dataclass(frozen=True, eq=False)
class ReadoutContext:
    """What blocks are made from: a graph, and each encoder's output. Those that are ``own`` come from nodes' features alone.

    The last ``made`` of them are blocks' own. The engine computes in float32.
    """

    engine: Engine
    view: View
    encoded: Sequence[Tensor]
    own: Collection[int] = ()
    made: int = 0

    @functools.cached_property
    def operators(self) -> Operators:
        """The linear maps of the view."""
        return self.engine.operators(self.view)

    @property
    def device_graph(self) -> DeviceGraph:
        return self.view.device_graph

    @functools.cached_property
    def fitted_nodes(self) -> Tensor | slice:
        """The nodes that stand for all."""
        count = self.device_graph.graph.num_nodes
        return slice(None) if count <= FITTED_NODES else fitted_nodes(count).to(self.engine.device)

    @property
    def num_outputs(self) -> int:
        """How many outputs the encoders have."""
        return len(self.encoded) - self.made

    @property
    def num_features(self) -> int:
        return int(self.device_graph.features.shape[1])

    @property
    def has_dense_features(self) -> bool:
        """Whether the features are at hand as they are."""
        import torch

        return self.view.is_whole and isinstance(self.device_graph.features, torch.Tensor)

    def width(self, product: Product) -> int:
        """How many columns a matrix has."""
        source, weight = product.source, product.weight
        if source.walk_columns:
            return len(STEPS) * source.walk_columns
        if source.encoder is not None:
            return self.encoded[source.encoder].shape[1]
        return self.num_features if weight is None else weight.shape[1]

    def rows(self, source: Source, weight: Tensor | None = None) -> list[Tensor]:
        """The rows of a source, times a weight if it is features: matrices that stand side by side."""
        from clnr.engine import unit_rows
        from clnr.nn.structure import walks

        if source.walk_columns:
            return walks(self.engine, self.device_graph, source.walk_columns, STEPS)
        if source.encoder is None:
            return [self.operators.features if weight is None else self.operators.project(weight)]
        rows = self.encoded[source.encoder]
        return [unit_rows(rows) if source.unit else rows]

    def matrices(self, products: Sequence[Product], nodes: Tensor | slice = slice(None)) -> list[Tensor]:
        """Matrices of blocks: the rows of all nodes, or of some."""
        from clnr.engine.streams import IdentityKey

        chains: dict[tuple[Source, IdentityKey], list[int]] = {}
        for number, product in enumerate(products):
            chains.setdefault((product.source, IdentityKey(product.weight)), []).append(number)
        made: dict[int, Tensor] = {}
        for (source, _), numbers in chains.items():
            parts = self.rows(source, products[numbers[0]].weight)
            found = _hops(self.operators, parts, {products[number].hops for number in numbers}, nodes)
            made |= {number: found[products[number].hops] for number in numbers}
        return [made[number] for number in range(len(products))]

    def fitted_rows(self, products: Sequence[Product]) -> list[Tensor]:
        """The rows of the nodes that stand for all in matrices of blocks."""
        if self.num_features > MOST_INNER_PRODUCTS:
            return self.matrices(products, self.fitted_nodes)
        others = iter(self.matrices([each for each in products if each.weight is None], self.fitted_nodes))
        return [next(others) if each.weight is None else self.fitted_features(each.hops) @ each.weight for each in products]

    def fitted_features(self, hops: int) -> Tensor:
        """The features of the sampled nodes, propagated ``hops`` times, some columns at a time.

        Methods with the same features share them.
        """
        import torch

        def make() -> Tensor:
            x, width, parts = self.device_graph.features, self.num_features, []
            for start in range(0, max(1, width), _COLUMNS):
                some = slice(start, start + _COLUMNS)
                if isinstance(x, torch.Tensor):
                    columns = x[:, some]
                else:
                    columns = self.operators.project(torch.eye(width, device=self.engine.device)[:, some])
                parts.append(_hops(self.operators, [columns], {hops}, self.fitted_nodes)[hops])
            return torch.cat(parts, 1)

        # Few products make the others again.
        return self.device_graph.once(("fitted features", hops), make) if hops > 1 else make()


def _hops(operators: Operators, parts: list[Tensor], hops: Collection[int], nodes: Tensor | slice) -> dict[int, Tensor]:
    """The rows of some nodes, after each number of propagations, of matrices that stand side by side."""
    import torch

    found: dict[int, Tensor] = {}
    last = max(hops)
    for hop in range(last + 1):
        if hop == last > 0:
            # Of others, no rows are needed any more.
            some = [operators.propagate_to(nodes, part) for part in parts]
        else:
            parts = [operators.propagate(part) for part in parts] if hop else parts
            some = [part[nodes] for part in parts] if hop in hops else []
        if hop in hops:
            found[hop] = some[0] if len(some) == 1 else torch.cat(some, 1)
    return found


class Block:
    """Columns of the embedding before it is reduced; ``size`` is the root mean square length of its rows beside the others'."""

    size: ClassVar[float] = 1.0

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        """The number of columns of each of its matrices, given the number of features and of each encoder output's columns."""
        return []

    def products(self, parameters: Parameters, outputs: int) -> list[Product] | None:
        """The same matrices as products, which can be read out from files; None if they are not. ``outputs`` is a number."""
        return None

    def fit(self, context: ReadoutContext) -> Parameters:
        """What is learned from the training graph; by default nothing."""
        return {}

    def weigh(self, sizes: list[float], families: list[Family], measure: Measure) -> tuple[list[float], Parameters]:
        """As ``Readout.weigh``; by default all keep their sizes."""
        return sizes, {}

    def remarks(self, parameters: Parameters) -> list[str]:
        """What a user should know of what was learned, a line each."""
        return []

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> list[Tensor]:
        """Its matrices, each centred and scaled by itself; a block that has no ``products`` makes them here."""
        products = self.products(parameters, len(context.encoded))
        assert products is not None, "a block has products, or makes its matrices itself"
        return context.matrices(products)


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

    def fit(self, context: ReadoutContext) -> Parameters:
        if not self.reduced:
            return {}

        def directions() -> Tensor:
            if self.iterates(context.num_features):
                return self.iterated_directions(context.engine, context.view)
            return self.directions(context.fitted_features(self.steps))

        # Methods with the same features share it.
        return {"directions": context.device_graph.once(("directions", type(self).__name__, self.count), directions)}

    def directions(self, rows: Tensor) -> Tensor:
        """The principal directions, given the propagated features of the nodes that stand for all."""
        from clnr.nn.low_rank import principal_axes

        return principal_axes(rows, self.count, self._key)

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

        return principal_directions(multiply, view.device_graph.num_features, self.count, self._key, engine.device)

    @property
    def count(self) -> int:
        """How many directions there are, unless features are fewer."""
        return max(self.reduced, self.dimension)

    @property
    def _key(self) -> rng.Key:
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

"""Read-out: blocks of columns make the embedding, reduced to its dimension."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from clnr import rng
from clnr.errors import RecipeError
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.readout_blocks import Block, Family, Measure, Product, ReadoutContext, ReducedFeatures, Source

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.graph.csr import Array

ROWS = 1 << 13
# The most rows from which is estimated what other read-outs would make.
_TRIED_ROWS = 1 << 12


class FittedRows(NamedTuple):
    """For each matrix of the blocks: its rows at the sampled nodes, the size of its block, and its family."""

    sizes: list[float]
    families: list[Family]
    rows: list[Tensor]
    measure: Measure


class _Moments(NamedTuple):
    """Of columns side by side: the mean and the scale of each, and the covariance of the centred and scaled ones."""

    mean: Tensor
    scale: Tensor
    covariance: Tensor

    def scaled(self, ratio: Tensor) -> _Moments:
        """Those of columns scaled once more, without those that are scaled by 0."""
        kept = ratio.nonzero()[:, 0]
        some, ratio = self.covariance.index_select(0, kept).index_select(1, kept), ratio[kept]
        return _Moments(self.mean[kept], self.scale[kept] * ratio, some * ratio * ratio[:, None])


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
        sized, context = self._made(parameters, context)
        return parameters | self.fit_rows(self._fitted_rows(sized, context), context.engine.device)

    def trials(
        self, parameters: Parameters, context: ReadoutContext, others: Sequence[Readout], nodes: Tensor
    ) -> Iterator[Tensor | None]:
        """``try_rows`` of some nodes; ``parameters`` are what this read-out has learned."""
        sized, context = self._made(parameters, context)
        fitted, products = self._fitted_rows(sized, context), [product for _, product in sized]
        all_rows = isinstance(context.fitted_nodes, slice)
        rows = [each[nodes] for each in fitted.rows] if all_rows else context.matrices(products, nodes)
        return self.try_rows(fitted, others, rows, context.engine.device)

    def _fitted_rows(self, sized: list[tuple[float, Product]], context: ReadoutContext) -> FittedRows:
        from clnr.nn.edge_information import edge_weight

        products, graph = [product for _, product in sized], context.device_graph.graph

        def measure(numbers: tuple[int, ...]) -> float:
            reads = [_reader(context, products[number]) for number in numbers]
            return edge_weight(graph.draw_neighbours, reads, graph.num_nodes)

        rows = context.fitted_rows(products)
        return FittedRows([size for size, _ in sized], self.families(products, context.num_outputs, context.own), rows, measure)

    def families(self, products: list[Product], outputs: int, own: Collection[int]) -> list[Family]:
        """The family of each of the blocks' matrices, given the number of the encoders' outputs, and those that are ``own``."""
        made = [product.source.encoder is not None and product.source.encoder >= outputs for product in products]
        return [Family.OTHER if each else product.family(own) for each, product in zip(made, products, strict=True)]

    def fit_rows(self, fitted: FittedRows, device: torch.device) -> Parameters:
        """What is learned from rows of the blocks' matrices: what each weighs, and the map of all of them to the embedding."""
        sizes, learned = self.weigh(fitted)
        if not fitted.rows:
            raise RecipeError("the read-out has no columns; reduced must be above 0 where features are all that is read out")
        if not any(sizes):
            raise RecipeError("the read-out has none of the columns that mix asks for; mix=all takes those that there are")
        return learned | self.fit_components(sizes, fitted.rows, device)

    def fit_components(self, sizes: list[float], matrices: list[Tensor], device: torch.device) -> Parameters:
        """The map of the blocks' matrices to the embedding, learned from rows of these, each of some size."""
        return self._components(_moments(sizes, matrices), device)

    def try_rows(
        self, fitted: FittedRows, others: Sequence[Readout], rows: list[Tensor], device: torch.device
    ) -> Iterator[Tensor | None]:
        """Vectors from rows of the blocks' matrices, as read-outs that differ in what these weigh would make them.

        None for one that has no columns. The moments of all columns are computed once, from some of the rows.
        """
        import torch

        fitted = fitted._replace(measure=functools.cache(fitted.measure))
        sizes, _ = self.weigh(fitted)
        some, widths = [_some(each) for each in fitted.rows], [each.shape[1] for each in rows]
        moments = _moments(sizes, some)
        for other in others:
            ratios = [new / old if old else 0.0 for new, old in zip(other.weigh(fitted)[0], sizes, strict=True)]
            kept = [number for number, ratio in enumerate(ratios) if ratio]
            if not kept:
                yield None
                continue
            ratio = torch.cat([torch.full((width,), each) for width, each in zip(widths, ratios, strict=True)]).to(device)
            learned = self._components(moments.scaled(ratio), device)
            weights = learned["weight"].split([width for number, width in enumerate(widths) if number in kept])
            yield learned["bias"] + sum((rows[number] @ weight for number, weight in zip(kept, weights, strict=True)))

    def weigh(self, fitted: FittedRows) -> tuple[list[float], Parameters]:
        """The sizes that blocks give to all matrices, and what they learned of that."""
        parameters: Parameters = {}
        sizes = list(fitted.sizes)
        for place, block in self.places():
            sizes, learned = block.weigh(sizes, fitted.families, fitted.measure)
            parameters |= add_prefix(place, learned)
        return sizes, parameters

    def _components(self, moments: _Moments, device: torch.device) -> Parameters:
        """The map of the blocks' columns to the embedding."""
        import torch

        from clnr.nn.low_rank import axes_of_inner_products, orthonormal

        mean, scale, covariance = moments
        directions = axes_of_inner_products(covariance, self.dimension, rng.key(0, "components"))
        count = directions.shape[1]
        total = ((covariance @ directions) * directions).sum()
        size = torch.where(total > 0, self.dimension / total, 1).sqrt()
        rotation = orthonormal(rng.normal(rng.key(0, "rotation"), count * count, device).reshape(count, count))
        weight = size * scale[:, None] * (directions @ rotation)
        return {"weight": weight, "bias": -(mean @ weight)}

    def __call__(self, parameters: Parameters, context: ReadoutContext) -> Tensor:
        r"""One row per node.

        As propagation is linear, what is propagated more often is added up before: with rows :math:`S` and weights
        :math:`W_h`, it is :math:`S W_0 + \hat A (S W_1 + \hat A (S W_2))`. Where nothing but features is propagated, and these
        are fewer than the dimension, they are propagated themselves.
        """
        sized, context = self._made(parameters, context)
        products = [product for _, product in sized]
        weights = source_weights(parameters["weight"], products, [context.width(each) for each in products])
        total: Tensor | None = None
        if context.num_features < self.dimension and all(each.source == Source() for each in weights if each.hops):
            direct = [each for each in weights if each.source == Source()]
            for product, rows in zip(direct, context.matrices(direct), strict=True):
                total = _plus(total, rows, weights.pop(product))
        most = max((product.hops for product in weights), default=0)
        for hops in range(most, -1, -1):
            if hops < most:
                assert total is not None
                total = context.operators.propagate(total)
            for product, weight in weights.items():
                if product.hops == hops and product.source == Source() and not context.has_dense_features:
                    rows = context.operators.project(weight)
                    total = rows if total is None else total.add_(rows)
                elif product.hops == hops:
                    parts = context.rows(product.source)
                    for part, factor in zip(parts, weight.split([each.shape[1] for each in parts]), strict=True):
                        total = _plus(total, part, factor)
        assert total is not None
        return total.add_(parameters["bias"])

    def _made(self, parameters: Parameters, context: ReadoutContext) -> tuple[list[tuple[float, Product]], ReadoutContext]:
        """The blocks' matrices as products, each with the size of its block, and what these are products of.

        What a block makes itself stands there beside the encoders' outputs.
        """
        import torch

        sized: list[tuple[float, Product]] = []
        encoded = list(context.encoded)
        for place, block in self.places():
            learned = sub_dict(parameters, place)
            products = block.products(learned, len(context.encoded))
            if products is None:
                made = block(learned, context)
                products = [Product(Source(len(encoded) + number)) for number in range(len(made))]
                encoded += [matrix.to(torch.float32) for matrix in made]
            sized += [(block.size, product) for product in products]
        return sized, dataclasses.replace(context, encoded=encoded, made=len(encoded) - len(context.encoded))

    def products(self, parameters: Parameters, outputs: int) -> list[tuple[float, Product]]:
        """The blocks' matrices as products, each with the size of its block; all blocks must have them."""
        sized = [(block.size, block.products(sub_dict(parameters, place), outputs)) for place, block in self.places()]
        return [(size, product) for size, products in sized for product in products or []]

    def widths(self, inputs: int, outputs: list[int]) -> list[int]:
        """How many columns each of the blocks' matrices has, as ``Block.widths``."""
        return [width for block in self.blocks for width in block.widths(inputs, outputs)]

    def remarks(self, parameters: Parameters) -> list[str]:
        """What a user should know of what was learned, a line each."""
        return [line for place, block in self.places() for line in block.remarks(sub_dict(parameters, place))]

    def reducing_many(self, features: int) -> list[tuple[str, ReducedFeatures]]:
        """The blocks that reduce features by ``iterated_directions``, and where each has its parameters."""
        reducing = [(place, block) for place, block in self.places() if isinstance(block, ReducedFeatures)]
        return [(place, block) for place, block in reducing if block.iterates(features)]

    def feature_columns(self, features: int) -> int:
        """How many columns of features are propagated from files: of many, the products with all directions."""
        return sum(min(features, block.count) for _, block in self.reducing_many(features)) or features

    def places(self) -> list[tuple[str, Block]]:
        """The blocks, and where each has its parameters."""
        return [(f"block.{index}", block) for index, block in enumerate(self.blocks)]


def _reader(context: ReadoutContext, product: Product) -> Callable[[Array], Tensor]:
    """What reads rows of a matrix that is not propagated: of all nodes where these are few, else of those that are read."""
    import torch

    from clnr.nn import edge_information

    x, weight, device = context.device_graph.features, product.weight, context.engine.device
    if weight is not None and isinstance(x, torch.Tensor) and len(x) > edge_information.MOST_COMPARED:
        return lambda nodes: x[torch.from_numpy(nodes).to(device)] @ weight
    make = functools.cache(lambda: context.matrices([product])[0])
    return lambda nodes: make()[torch.from_numpy(nodes).to(device)]


def source_weights(weight: Tensor, products: list[Product], widths: list[int]) -> dict[Product, Tensor]:
    """The weights of each source's propagated rows, given the weights of all matrices side by side."""
    weights: dict[Product, Tensor] = {}
    for product, part in zip(products, weight.split(widths), strict=True):
        factor, rows = part if product.weight is None else product.weight @ part, product._replace(weight=None)
        weights[rows] = weights[rows] + factor if rows in weights else factor
    return weights


def _plus(total: Tensor | None, rows: Tensor, weight: Tensor) -> Tensor:
    """Rows times a weight, added to what there is, in place."""
    return rows @ weight if total is None else total.addmm_(rows, weight)


def _length(matrix: Tensor, mean: Tensor) -> Tensor:
    """The root mean square length of centred rows; infinite where they are all equal, up to rounding."""
    import torch

    length, offset = (torch.linalg.vector_norm(each, dtype=torch.float64) for each in (matrix - mean, mean))
    length = length / max(1, len(matrix)) ** 0.5
    return torch.where(length > 1e-5 * offset, length, torch.inf).to(torch.float32)


def _some(rows: Tensor) -> Tensor:
    """An evenly spaced sample of rows, if there are many."""
    return rows[:: -(-len(rows) // _TRIED_ROWS)] if len(rows) else rows


def _moments(sizes: list[float], matrices: list[Tensor]) -> _Moments:
    """The moments of matrices side by side, each centred and scaled so that its root mean square row length is its size."""
    import torch

    means = [matrix.mean(0) if len(matrix) else matrix.sum(0) for matrix in matrices]
    scales = [size / _length(matrix, mean) for size, matrix, mean in zip(sizes, matrices, means, strict=True)]
    mean = torch.cat(means)
    scale = torch.cat([factor.expand(len(each)) for factor, each in zip(scales, means, strict=True)])
    return _Moments(mean, scale, _covariance(matrices, mean, scale))


def _covariance(matrices: list[Tensor], mean: Tensor, scale: Tensor) -> Tensor:
    """The covariance of all centred and scaled columns, computed in blocks of rows to save memory."""
    import torch

    covariance = torch.zeros(len(mean), len(mean), device=mean.device)
    count = len(matrices[0])
    for begin in range(0, count, ROWS):
        rows = (torch.cat([matrix[begin : begin + ROWS] for matrix in matrices], 1) - mean) * scale
        covariance.addmm_(rows.T, rows, alpha=1 / count)
    return covariance

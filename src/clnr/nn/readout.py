"""Read-out: blocks of columns make the embedding, reduced to its dimension."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr import rng
from clnr.errors import RecipeError
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.readout_blocks import Block, Family, Measure, Product, ReducedFeatures, Rows

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 1 << 13
# The most rows from which is estimated what other read-outs would make.
_TRIED_ROWS = 1 << 12


class Sampled(NamedTuple):
    """Matrices of the blocks, of a sample of nodes.

    Attributes:
        sizes: The size of the block of each matrix.
        families: Their families.
        matrices: Their rows at the nodes of the sample.
        fitted: The places of those nodes that stand for all.
        measure: Measures what edges should weigh.
    """

    sizes: list[float]
    families: list[Family]
    matrices: list[Tensor]
    fitted: Tensor | slice
    measure: Measure

    @property
    def fitted_rows(self) -> list[Tensor]:
        """The rows of the nodes that stand for all."""
        return [matrix[self.fitted] for matrix in self.matrices]


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

    def fit(self, rows: Rows) -> Parameters:
        """Everything that embedding needs, learned from the training graph."""
        learned, sampled = self.fit_blocks(rows)
        return learned | self.fit_rows(sampled)

    def fit_blocks(self, rows: Rows) -> tuple[Parameters, Sampled]:
        """What the blocks learn from the training graph, and their matrices."""
        learned: Parameters = {}
        for place, block in self.places():
            learned |= add_prefix(place, block.fit(rows))
        sized = self.products(learned, rows.num_outputs)
        products = [product for _, product in sized]
        measure = functools.cache(lambda numbers: rows.measure([products[number] for number in numbers]))
        families = [product.family(rows.own) for product in products]
        return learned, Sampled([size for size, _ in sized], families, rows.matrices(products), rows.fitted, measure)

    def fit_rows(self, sampled: Sampled) -> Parameters:
        """What is learned from the blocks' matrices: what each weighs, and the map of all of them to the embedding."""
        sizes, learned = self.weigh(sampled)
        if not sampled.matrices:
            raise RecipeError("the read-out has no columns; reduced must be above 0 where features are all that is read out")
        if not any(sizes):
            raise RecipeError("the read-out has none of the columns that mix asks for; mix=all takes those that there are")
        return learned | self.fit_components(sizes, sampled.fitted_rows)

    def fit_components(self, sizes: list[float], matrices: list[Tensor]) -> Parameters:
        """The map of the blocks' matrices to the embedding, learned from rows of these, each of some size."""
        return self._components(_moments(sizes, matrices))

    def try_others(self, sampled: Sampled, others: Sequence[Readout], places: Tensor) -> Iterator[Tensor | None]:
        """Vectors of some places of the sample as read-outs that differ in what matrices weigh would make them.

        None for one that has no columns. The moments of all columns are computed once, from some of the rows.
        """
        import torch

        sizes, _ = self.weigh(sampled)
        rows = [matrix[places] for matrix in sampled.matrices]
        widths = [each.shape[1] for each in rows]
        # An evenly spaced sample of the rows, if there are many.
        moments = _moments(sizes, [each[:: -(-len(each) // _TRIED_ROWS) or 1] for each in sampled.fitted_rows])
        for other in others:
            ratios = [new / old if old else 0.0 for new, old in zip(other.weigh(sampled)[0], sizes, strict=True)]
            kept = [number for number, ratio in enumerate(ratios) if ratio]
            if not kept:
                yield None
                continue
            ratio = torch.cat([torch.full((width,), each) for width, each in zip(widths, ratios, strict=True)])
            learned = self._components(moments.scaled(ratio.to(moments.mean.device)))
            yield _product([rows[number] for number in kept], learned)

    def weigh(self, sampled: Sampled) -> tuple[list[float], Parameters]:
        """The sizes that blocks give to all matrices, and what they learned of that."""
        parameters: Parameters = {}
        sizes = list(sampled.sizes)
        for place, block in self.places():
            sizes, learned = block.weigh(sizes, sampled.families, sampled.measure)
            parameters |= add_prefix(place, learned)
        return sizes, parameters

    def _components(self, moments: _Moments) -> Parameters:
        """The map of the blocks' columns to the embedding."""
        import torch

        from clnr.nn.low_rank import axes_of_inner_products, orthonormal

        mean, scale, covariance = moments
        directions = axes_of_inner_products(covariance, self.dimension, rng.key(0, "components"))
        count = directions.shape[1]
        total = ((covariance @ directions) * directions).sum()
        size = torch.where(total > 0, self.dimension / total, 1).sqrt()
        rotation = orthonormal(rng.normal(rng.key(0, "rotation"), count * count, mean.device).reshape(count, count))
        weight = size * scale[:, None] * (directions @ rotation)
        return {"weight": weight, "bias": -(mean @ weight)}

    def vectors(self, parameters: Parameters, sampled: Sampled, places: Tensor) -> Tensor:
        """The embedding of some places of the sample."""
        return _product([matrix[places] for matrix in sampled.matrices], parameters)

    def __call__(self, parameters: Parameters, rows: Rows) -> Any:
        r"""The embedding of all nodes.

        As propagation is linear, what is propagated more often is added up before: with rows :math:`S` and weights
        :math:`W_h`, it is :math:`S W_0 + \hat A (S W_1 + \hat A (S W_2))`.
        """
        products = [product for _, product in self.products(parameters, rows.num_outputs)]
        widths = self.widths(rows.num_features, [rows.width(output) for output in range(rows.num_outputs)])
        weights: dict[Product, Tensor] = {}
        for product, part in zip(products, parameters["weight"].split(widths), strict=True):
            factor, key = part if product.weight is None else product.weight @ part, product._replace(weight=None)
            weights[key] = weights[key] + factor if key in weights else factor
        total = None
        for hop in range(max((product.hops for product in weights), default=0), -1, -1):
            terms = {product.source: weight for product, weight in weights.items() if product.hops == hop}
            total = rows.add_up(hop, terms, None if hop else parameters["bias"], total)
        return total

    def products(self, parameters: Parameters, outputs: int) -> list[tuple[float, Product]]:
        """The blocks' matrices as products, each with the size of its block."""
        sized = [(block.size, block.products(sub_dict(parameters, place), outputs)) for place, block in self.places()]
        return [(size, product) for size, products in sized for product in products]

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


def _product(matrices: list[Tensor], parameters: Parameters) -> Tensor:
    """Matrices side by side, times the weights, and the bias."""
    parts = parameters["weight"].split([matrix.shape[1] for matrix in matrices])
    return parameters["bias"] + sum(matrix @ part for matrix, part in zip(matrices, parts, strict=True))


def _length(matrix: Tensor, mean: Tensor) -> Tensor:
    """The root mean square length of centred rows; infinite where they are all equal, up to rounding."""
    import torch

    length, offset = (torch.linalg.vector_norm(each, dtype=torch.float64) for each in (matrix - mean, mean))
    length = length / max(1, len(matrix)) ** 0.5
    return torch.where(length > 1e-5 * offset, length, torch.inf).to(torch.float32)


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

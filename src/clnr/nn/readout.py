"""Read-out: blocks of columns make the embedding, reduced to its dimension."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clnr import rng
from clnr.errors import RecipeError
from clnr.nn.encoders.encoder import DIMENSION
from clnr.nn.layers import Parameters, add_prefix, sub_dict
from clnr.nn.low_rank import axes_of_inner_products, orthonormal
from clnr.nn.readout_blocks import Block, Matrix, Product, ReadoutContext
from clnr.support.lazy import lazy
from clnr.support.processes.workers import ALONE, Workers

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from clnr.graph.csr import Array
    from clnr.nn.edge_information import edge_weight
else:
    torch = lazy("torch")
    edge_weight = lazy("clnr.nn.edge_information", "edge_weight")

ROWS = 1 << 13


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
        graph, of_node = context.device_graph.graph, self.of_node(len(context.encoded), context.own)
        workers = context.engine.workers
        # Of all matrices some rows, and of a node's own ones all, of which the edges' weight is measured.
        some: list[tuple[float, Tensor]] = []
        own: dict[int, Tensor] = {}
        for number, (size, matrix) in enumerate(self._matrices(parameters, context)):
            some.append((size, matrix[context.fitted_nodes]))
            if of_node and of_node[number] and workers.first:
                own[number] = matrix

        def measure(numbers: list[int]) -> float:
            weight = 0.0
            if workers.first:
                reads = [functools.partial(_rows_of, own[number]) for number in numbers]
                weight = edge_weight(graph.draw_neighbours, reads, graph.num_nodes)
            return workers.broadcast_object(weight)

        return parameters | self.fit_rows(some, of_node, measure, context.engine.device, workers)

    def fit_rows(
        self,
        matrices: list[tuple[float, Tensor]],
        of_node: list[bool],
        measure: Callable[[list[int]], float],
        device: torch.device,
        workers: Workers = ALONE,
    ) -> Parameters:
        """What is learned from rows of the blocks' matrices, each with the size of its block: as ``weigh`` and then
        ``fit_components``. ``measure`` is given the numbers of matrices.
        """
        sizes, learned = self.weigh([(size, number) for number, (size, _) in enumerate(matrices)], of_node, measure)
        return learned | self.fit_components([(size, matrices[number][1]) for size, number in sizes], device, workers)

    def of_node(self, outputs: int, own: Collection[int]) -> list[bool]:
        """For each of the blocks' matrices, whether it comes from nodes' own features alone; [] where a block does not tell.

        Of so many encoders' outputs, those that are ``own`` do.
        """
        products = [block.products({}, outputs) for block in self.blocks]
        return [] if None in products else [each.of_node(own) for some in products for each in some or []]

    def weigh(
        self, matrices: list[tuple[float, Matrix]], of_node: list[bool], measure: Callable[[list[Matrix]], float]
    ) -> tuple[list[tuple[float, Matrix]], Parameters]:
        """The blocks' matrices with the sizes that blocks give to them all, and what these learned of that.

        With each matrix, or what stands for it, comes the size of its block. ``measure`` tells what those that come from edges
        should weigh, by those that come from nodes' own features.
        """
        parameters: Parameters = {}
        for place, block in self.places():
            matrices, learned = block.weigh(matrices, of_node, measure)
            parameters |= add_prefix(place, learned)
        return matrices, parameters

    def fit_components(
        self, matrices: list[tuple[float, Tensor]], device: torch.device, workers: Workers = ALONE
    ) -> Parameters:
        """The map of the blocks' matrices to the embedding, learned from rows of these; each has the size of its block.

        Where ``workers`` have the same rows, they share the work.
        """
        if not matrices:
            raise RecipeError("the read-out has no columns; reduced must be above 0 where features are all that is read out")
        means = [matrix.mean(0) if len(matrix) else matrix.sum(0) for _, matrix in matrices]
        scales = [size / _length(matrix, mean) for (size, matrix), mean in zip(matrices, means, strict=True)]
        mean = torch.cat(means)
        scale = torch.cat([factor.expand(len(each)) for factor, each in zip(scales, means, strict=True)])
        covariance = _covariance([matrix for _, matrix in matrices], mean, scale, workers)
        directions = axes_of_inner_products(covariance, self.dimension, rng.key(0, "components"), workers)
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
        for _, matrix in self._matrices(parameters, context):
            rows = rows + matrix[own] @ weight[begin : begin + matrix.shape[1]]
            begin += matrix.shape[1]
        return workers.all_gather_rows(rows, count)

    def _matrices(self, parameters: Parameters, context: ReadoutContext) -> Iterator[tuple[float, Tensor]]:
        for place, block in self.places():
            for matrix in block(sub_dict(parameters, place), context):
                yield block.size, matrix.to(torch.float32)

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

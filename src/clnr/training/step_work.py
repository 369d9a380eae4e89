"""The work of a training step, estimated from the sizes of graph and encoder."""

from __future__ import annotations

from typing import NamedTuple

from clnr.methods.recipe import Recipe
from clnr.nn.objectives import Objective

_BYTES_PER_NUMBER = 4
# Bytes and operations per second of one thread of a CPU: typical values.
_BYTES_PER_SECOND, _OPERATIONS_PER_SECOND = 7.5e9, 3e10


class Size(NamedTuple):
    """The size of a graph: nodes, directed edges, features, and bytes of the features."""

    nodes: int
    edges: int
    features: int
    bytes: float


class StepWork(NamedTuple):
    """Of one view, the rows that all layers compute, and the nodes whose features are read.

    Of all views, the bytes that propagation reads and writes, and the operations of dense products.
    """

    rows: float
    nodes: float
    moved: float
    multiplied: float

    @property
    def seconds(self) -> float:
        """How long one thread of a CPU takes."""
        return self.moved / _BYTES_PER_SECOND + self.multiplied / _OPERATIONS_PER_SECOND


def step_work(views: int, objective: Objective | None, recipe: Recipe, size: Size) -> StepWork:
    """The work of a step with ``views`` views."""
    views = max(2, views)
    width = max(recipe.hidden, recipe.dimension)
    links = 1 + size.edges / max(1, size.nodes)
    sampled = objective is not None and objective.sampled_moments
    if sampled and recipe.max_neighbors:
        links = min(links, 1 + recipe.max_neighbors)
    some = min(size.nodes, recipe.sampled_nodes or size.nodes)
    # The rows that each layer computes: of all nodes, or of those that the sampled ones reach by their edges.
    rows = [min(size.nodes, (some if sampled else size.nodes) * links**hops) for hops in range(recipe.layers)]
    moved = 3 * views * sum(rows) * links * width * _BYTES_PER_NUMBER
    inner = min(size.features, width) + width * (recipe.layers - 1)
    pairs = some**2 if objective is not None and objective.all_pairs else 0
    nodes = min(size.nodes, rows[-1] * links)
    return StepWork(sum(rows), nodes, moved, 6 * views * (rows[-1] * width * inner + pairs * width))

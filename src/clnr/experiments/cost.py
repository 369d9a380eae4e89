"""Estimates of time and memory from the sizes of graph and encoder: an order of magnitude, before anything is run."""

from __future__ import annotations

from typing import NamedTuple

from clnr.engine import Engine
from clnr.methods import Method
from clnr.methods.recipe import Recipe

# Bytes and operations per second, and the fixed seconds of an epoch: typical values.
_RATES = {"cuda": (1.5e12, 1e14, 3e-4), "cpu": (1.5e10, 6e10, 2e-3)}
_NUMBER = 4
_EDGE = 80
_STEP = 2e-6
_PROBE = 1e-7
_BASE = 6.5e8


class Size(NamedTuple):
    """The size of a graph: nodes, directed edges, features, and bytes of the features."""

    nodes: int
    edges: int
    features: int
    bytes: float


class Cost(NamedTuple):
    """Seconds of a training, and its peak of memory in bytes."""

    seconds: float
    memory: float


def training(method: Method, recipe: Recipe, size: Size, engine: Engine) -> Cost:
    """The cost of a training, with every number moved and multiplied at a typical rate."""
    bandwidth, speed, launch = _RATES[engine.device.type]
    views = max(2, len(method.views))
    width = max(recipe.hidden, recipe.dimension)
    sampled = min(size.nodes, recipe.sampled_nodes or size.nodes)
    links, rows = _links(recipe, size), _layer_rows(recipe, size)
    moved = 3 * views * sum(rows) * links * width * _NUMBER
    inner = min(size.features, width) + width * (recipe.layers - 1)
    multiplied = 6 * views * (rows[-1] * width * inner + sampled**2 * width)
    epochs = recipe.epochs if method.objective else 0
    # With early stopping a training ends long before the last epoch.
    epochs = min(epochs, 20 * recipe.patience) if recipe.patience else epochs
    # The embedding of all nodes takes the memory of one layer of a full step.
    held = _NUMBER * 4 * views * max(size.nodes, sum(rows)) * width
    return Cost(epochs * (moved / bandwidth + multiplied / speed + launch), _BASE + size.bytes + _EDGE * size.edges + held)


def _links(recipe: Recipe, size: Size) -> float:
    """The edges into a node, its self-loop included; no more than a sampled step takes."""
    edges = size.edges / max(1, size.nodes)
    return 1 + (min(edges, recipe.max_neighbors) if recipe.max_neighbors and recipe.moments == "sampled" else edges)


def _layer_rows(recipe: Recipe, size: Size) -> list[float]:
    """The rows that each layer computes: of all nodes, or of those that the sampled ones reach by their edges."""
    wanted = min(size.nodes, recipe.sampled_nodes or size.nodes) if recipe.moments == "sampled" else size.nodes
    return [min(size.nodes, wanted * _links(recipe, size) ** hops) for hops in range(recipe.layers)]


class StepSize(NamedTuple):
    """What one view of a sampled step takes at most: nodes whose features it reads, rows that it computes, edges into these."""

    inputs: float
    rows: float
    edges: float


def step_size(recipe: Recipe, size: Size) -> StepSize:
    rows, links = _layer_rows(recipe, size), _links(recipe, size)
    return StepSize(min(size.nodes, rows[-1] * links), sum(rows), min(size.edges, sum(rows) * links))


def evaluating(nodes: int, classes: int, width: int) -> float:
    """Seconds of a linear probe fitted to so many nodes; on one core of the CPU, whatever the engine."""
    return _PROBE * nodes * classes * width


def mapping(nodes: int, width: int, steps: int) -> float:
    """Seconds of the nearest neighbours of all nodes and a 2D projection of them; on the CPU, whatever the engine."""
    return 2 * nodes**2 * width / _RATES["cpu"][1] + steps * nodes * _STEP

"""A recipe for a graph that nobody has tuned one for."""

from __future__ import annotations

from typing import NamedTuple

from clnr.graph import Graph
from clnr.methods import Method
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe, recipe_keys

_SMALL = 1_000
_MIDDLE = 50_000
_HUGE = 5_000_000
_NARROW = 32


class Choice(NamedTuple):
    """A number of a recipe, and why it is that."""

    key: str
    value: int | float
    reason: str


def choices(graph: Graph) -> list[Choice]:
    """What follows from a graph's size, density and features; all else is as the paper has it for most data sets."""
    nodes, degree = graph.num_nodes, graph.num_edges / max(1, graph.num_nodes)
    if nodes < _SMALL:
        width, why = 128, f"{nodes:,} nodes do not fill more"
    elif nodes > _HUGE:
        width, why = 128, f"{nodes:,} nodes would take twice the memory with 256"
    else:
        width, why = 256, "wider gains little (the paper's figure 3)"
    if nodes < _MIDDLE:
        epochs, enough = 50, "a graph of this size is learned soon, and more would wear it out"
    else:
        epochs, enough = 200, "an epoch contrasts 1,024 nodes, and there are many"
    if degree < 2:
        drop, sparse = 0.2, f"a node has {degree:.1f} edges on average, and must keep some"
    else:
        drop, sparse = 0.5, f"{degree:.1f} edges a node bear it"
    narrow = graph.num_features < _NARROW
    mask, few = (0.1, f"{graph.num_features} features are few") if narrow else (0.2, f"{graph.num_features:,} features bear it")
    return [
        Choice("dimension", width, why),
        Choice("hidden", width, why),
        Choice("epochs", epochs, enough),
        Choice("edge_drop", drop, sparse),
        Choice("feature_mask", mask, few),
    ]


def default_recipe(method: Method, graph: Graph) -> tuple[Recipe, list[Choice]]:
    """A method's recipe for a graph, and what of it follows from the graph.

    A data set of the catalogue has the recipe that is shipped for it, whole. For any other graph, numbers that a method's
    authors have set for all graphs stay theirs, and those that it has no use for are not chosen.
    """
    recipe, _, sources, _ = preset(method, graph.dataset)
    if graph.dataset is not None:
        return recipe, []
    free = [
        choice
        for choice in choices(graph)
        if choice.key in method.keys and sources[choice.key] == recipe_keys()[choice.key].source
    ]
    return recipe.but(**{choice.key: choice.value for choice in free}), free

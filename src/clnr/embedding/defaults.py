"""The default method and recipe for a graph of the user's own."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr.errors import DataError, RecipeError, option
from clnr.methods import CLNR, CLNR_MIX, SVD_MIX, Method
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe, recipe_keys
from clnr.methods.registry import method_of
from clnr.nn.edge_blocks import MIXES
from clnr.support.arguments import check_choice
from clnr.support.humanize import plural

if TYPE_CHECKING:
    from clnr.graph import Graph

_SMALL_NODES = 1_000
_MIDDLE_NODES = 50_000
_HUGE_NODES = 5_000_000
_NARROW_FEATURES = 32
_SAMPLED_NODES = 1_024
_STRUCTURE_COLUMNS = 256
_TELLING_WEIGHT = 0.5


EFFORTS: dict[str, tuple[Method, dict[str, Any]]] = {
    "quick": (SVD_MIX, {}),
    "standard": (CLNR_MIX, {}),
    "best": (CLNR_MIX, {"hidden": 512, "epochs": 200}),
}
"""How much time to spend: a method, and what it changes in that method's recipe."""
LABELS, LINKS = "labels", "links"
PURPOSES = (LABELS, LINKS)
"""What vectors may be for, if not for everything."""
TRIED = tuple({"mix": mix} for mix in MIXES if mix != "all")
"""Of these values, and of all baselines, a purpose chooses."""


def choose_method(
    method: Method | str | None, effort: str | None = None, purpose: str | None = None, encoder: Any = None
) -> dict[str, Any]:
    """The settings that a method, its name, an effort or a purpose stand for: by keyword of ``Settings``.

    An encoder of one's own takes the place of the method's; without a method, of CLNR's.
    """
    if effort is not None:
        check_choice("effort", effort, EFFORTS)
    if purpose is not None:
        check_choice("purpose", purpose, PURPOSES)
    if encoder is not None:
        if effort is not None:
            raise RecipeError("effort chooses an encoder, and encoder=... is another: leave one out")
        if purpose is not None:
            raise RecipeError("a purpose may take a baseline in place of encoder=...: leave one out")
        return {"method": (CLNR if method is None else method_of(method)).with_encoder(encoder)}
    if method is None:
        chosen, changes = EFFORTS[effort or "standard"]
        return {"method": chosen, "effort": changes, "purpose": purpose}
    for name, value in (("effort", effort), ("purpose", purpose)):
        if value is not None:
            named = option("method", method_of(method).name)
            raise RecipeError(f"{option(name)} and {named} both choose the method: leave one out")
    return {"method": method_of(method)}


def check_labels(method: Method, present: bool) -> None:
    """Fail if a method needs labels, and there are none."""
    if method.supervised and not present:
        raise DataError(f"{method.name} is supervised, and there are no labels to train by ({option('label')})")


class Choice(NamedTuple):
    """A hyper-parameter chosen for a graph, and why; what ``matters`` is shown to everyone."""

    key: str
    value: int | float | str
    reason: str
    matters: bool = False

    def __str__(self) -> str:
        return f"{self.key}={self.value}: {self.reason}"


def choices(graph: Graph, keys: Collection[str], featureless: bool = False) -> list[Choice]:
    """Those of some hyper-parameters that follow from a graph's size, density and features.

    All others are the paper's usual ones. Nodes are ``featureless`` if all that they have follows from edges.
    """
    nodes, degree = graph.num_nodes, graph.num_edges / max(1, graph.num_nodes)
    if nodes < _SMALL_NODES:
        width, why = 128, f"small graph ({nodes:,} nodes)"
    elif nodes > _HUGE_NODES:
        width, why = 128, f"{nodes:,} nodes: 256 would take twice the memory"
    else:
        width, why = 256, "the usual width"
    if nodes < _MIDDLE_NODES:
        epochs, enough = 50, "small graph: more epochs overfit"
    else:
        epochs, enough = 200, "large graph: an epoch contrasts only 1,024 of its nodes"
    if degree < 2:
        drop, sparse = 0.2, f"sparse graph, {degree:.1f} edges per node: fewer are dropped"
    else:
        drop, sparse = 0.5, f"{degree:.1f} edges per node are enough to drop half"
    step = f"a step computes only the neighbourhood of {_SAMPLED_NODES:,} of the {nodes:,} nodes"
    narrow = graph.num_features < _NARROW_FEATURES
    few = f"few features ({graph.num_features})" if narrow else f"{graph.num_features:,} features are enough to mask a fifth"
    made = [
        Choice("dimension", width, why),
        Choice("hidden", width, why),
        Choice("epochs", epochs, enough),
        Choice("edge_drop", drop, sparse),
        Choice("feature_mask", 0.1 if narrow else 0.2, few),
        *([Choice("moments", "sampled", step)] if nodes > _SAMPLED_NODES else []),
        # This takes long on a large graph.
        *([_structure(graph, featureless)] if narrow and "structure" in keys else []),
    ]
    return [choice for choice in made if choice.key in keys]


def _structure(graph: Graph, featureless: bool) -> Choice:
    """Structural features to add to few features, unless edges are uninformative."""
    if not featureless and graph.num_nodes and _edge_weight(graph) < _TELLING_WEIGHT:
        why = f"adds no structural features, though nodes have only {graph.num_features}, since the edges look random"
        return Choice("structure", 0, why, matters=True)
    why = f"adds structural features, since nodes have only {plural(graph.num_features, 'feature')}"
    return Choice("structure", _STRUCTURE_COLUMNS, why, matters=True)


def _edge_weight(graph: Graph) -> float:
    """What edges should weigh beside the features, each of these scaled by its deviation."""
    import torch

    from clnr.engine.blocks import in_blocks
    from clnr.nn.edge_information import edge_weight, some_nodes

    count = graph.num_nodes
    rows = in_blocks(graph).dense_rows
    spread = rows(some_nodes(count)).std(0, correction=0)
    return edge_weight(graph.draw_neighbours, [lambda nodes: rows(nodes) / torch.where(spread > 0, spread, 1)], count)


def default_recipe(
    method: Method, graph: Graph, featureless: bool = False, known: Collection[str] = ()
) -> tuple[Recipe, list[Choice]]:
    """A method's recipe for a graph, and the choices in it that follow from the graph.

    A data set of the catalogue has its shipped recipe, unchanged. For any other graph, hyper-parameters that a method's
    authors fixed for all graphs stay fixed, and those that the method does not use, or that are ``known``, are not chosen.
    """
    recipe, _, sources, _ = preset(method, graph.dataset)
    if graph.dataset is not None:
        return recipe, []
    keys, objective = {key for key in method.keys if sources[key] == recipe_keys()[key].source}, method.objective
    # A loss that takes all nodes keeps them.
    if objective is None or not (objective.sampled_loss and recipe.sampled_nodes and method.samples):
        keys.discard("moments")
    free = choices(graph, keys.difference(known), featureless)
    return recipe.but(**{choice.key: choice.value for choice in free}), free

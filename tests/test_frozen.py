"""What a seed decides, frozen: renaming or moving code must not change it."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path

import pytest
import torch

from clnr import METHODS, load, recipe_for
from clnr.engine import Reference
from clnr.nn.objectives import StepContext
from tests import frozen
from tests.cases import ONE_FOR_EACH_OBJECTIVE, in_tiers
from tests.session_folders import made_once, run_module

CPU = torch.device("cpu")

# Of each method on the built-in graph with seed 7: initial weights, the views of epoch 5, and the nodes in its loss.
FROZEN = json.loads(Path(__file__).with_name("drawn.json").read_text())


def digest(parts):
    total = hashlib.sha256()
    for name, value in parts:
        total.update(name.encode() + str(tuple(value.shape)).encode() + value.contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def drawn(index, view):
    """What a view leaves out, wherever it is random."""
    if view.drop is not None:
        yield f"{index} edges", view.drop.keep(view.device_graph.edges)
    if view.mask is not None and view.mask.elements:
        yield f"{index} elements", view.mask.of_elements(torch.arange(50)[:, None], torch.arange(720)) != 0
    elif view.mask is not None:
        yield f"{index} columns", view.mask.of_columns(720, CPU) != 0
    if view.node_permutation is not None:
        yield f"{index} order", view.node_permutation
    if view.dropout is not None:
        yield f"{index} dropout", view.dropout(torch.ones(40, 8), "layer 0") != 0


@pytest.fixture(scope="module")
def device_graph():
    return Reference(CPU).to_device(load("toy"))


def test_every_method_is_frozen_and_every_objective_has_one_in_make_test():
    assert FROZEN.keys() == METHODS.keys()
    assert {METHODS[name].objective for name in ONE_FOR_EACH_OBJECTIVE} == {each.objective for each in METHODS.values()}


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_what_it_always_gave(name, device_graph):
    graph = device_graph.graph
    model = METHODS[name].build(recipe_for(name, "toy"))
    weights = model.init(graph.num_features, 7)
    views = model.augment(device_graph, 7, "train", 5)
    nodes = None
    if model.objective is not None:
        nodes = model.objective.nodes(graph.num_nodes, StepContext(Reference(CPU), device_graph, 7, 5, 50))
    drawn_now = [
        digest(sorted(weights.items())),
        digest(pair for index, view in enumerate(views) for pair in drawn(index, view)),
        "" if nodes is None else digest([("nodes", nodes)]),
    ]
    assert FROZEN.get(name) == drawn_now, f'drawn.json has no or another line for it: "{name}": {json.dumps(drawn_now)},'


# -- vectors and scores ------------------------------------------------------------------------------------

KEPT = json.loads(frozen.KEPT.read_text())
BY_HAND = ["cora CLNR workers", "cora default files-workers"]
BY_HAND += [f"photo {chosen} files" for chosen in ("default", "quick", "CLNR")]
# Cora has them, too.
BY_HAND += [f"photo {chosen} memory" for chosen in ("SVD-mix", "CLNR", "GRACE", "CCA-SSG", "BGRL")]


def tier_of_case(case):
    """``make test`` has tables in memory, embedded by what most use; what takes longest is run by hand."""
    tier = pytest.mark.slow if case.name in BY_HAND else pytest.mark.full
    if "workers" in case.way:
        return [tier, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]
    few = case.chosen in ("GRACE", "CCA-SSG", "BGRL", "SVD-mix")
    return [tier] if few or case.way != "memory" or case.graph in frozen.DATA else []


def assert_frozen(name, found, tolerances):
    differs = frozen.differences(KEPT[name], found)
    too_large = {part: value for part, value in differs.items() if not value <= tolerances[part]}
    assert not too_large, f"{name}: {differs}; if they are meant to change: python -m tests.frozen"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("frozen")


def test_all_are_frozen():
    assert KEPT.keys() == {*(case.name for case in frozen.CASES), *(f"toy {name}" for name in METHODS)}


@pytest.mark.parametrize("name", in_tiers())
def test_a_method_gives_the_vectors_that_it_always_gave(name):
    assert_frozen(f"toy {name}", frozen.of_toy(name), {"products": 5e-3})


PARAMETERS = [pytest.param(case, id=case.name, marks=tier_of_case(case)) for case in frozen.CASES]


@pytest.mark.parametrize("case", PARAMETERS)
def test_a_graph_gives_what_it_always_gave(case, folder, tmp_path_factory, request, monkeypatch):
    data = request.getfixturevalue("real_data") if case.graph in frozen.DATA else None
    if "workers" in case.way:
        monkeypatch.setenv("CLNR_DATA", str(data or ""))
        made = made_once(tmp_path_factory, f"frozen-{case.graph}", partial(run_module, "tests.frozen"))
        found = json.loads((made / frozen.FACTS).read_text())[case.name]
    else:
        found = frozen.facts(frozen.Embedded(folder, data).embedder(case))
    assert_frozen(case.name, found, case.tolerances)

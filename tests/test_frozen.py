"""What a seed decides, frozen: renaming or moving code must not change it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from clnr import METHODS, load, recipe_for
from clnr.engine import Reference, cpu_engine
from clnr.experiments.learn import learn
from clnr.nn.objectives import StepContext
from tests.cases import in_tiers

CPU = torch.device("cpu")

# Of each method on the built-in graph with seed 7: initial weights, the views of epoch 5, and the nodes in its loss.
FROZEN = {
    "SVD": ("e3b0c44298fc1c14", "c749d147143da042", ""),
    "SVD-propagated": ("e3b0c44298fc1c14", "c2f1e508f35f6e6b", ""),
    "SVD-both": ("e3b0c44298fc1c14", "c2f1e508f35f6e6b", ""),
    "SVD-hops": ("e3b0c44298fc1c14", "c2f1e508f35f6e6b", ""),
    "Spectral": ("e3b0c44298fc1c14", "c749d147143da042", ""),
    "FastRP": ("e3b0c44298fc1c14", "c749d147143da042", ""),
    "Cleora": ("e3b0c44298fc1c14", "c749d147143da042", ""),
    "SVD-mix": ("e3b0c44298fc1c14", "c2f1e508f35f6e6b", ""),
    "CLNR-tuned": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "CLNR-mix": ("f1b72428e26ea380", "5ba7ef0449a5f3d8", "db5b1dd05c4e988f"),
    "CLNR-hops": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "CLNR-MLP": ("5f7875d5ba917dce", "5ba7ef0449a5f3d8", "db5b1dd05c4e988f"),
    "Raw": ("e3b0c44298fc1c14", "c749d147143da042", ""),
    "Untrained": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", ""),
    "GAE": ("5fa96e8da72427f0", "e3b0c44298fc1c14", ""),
    "VGAE": ("d91fa41f666faf61", "e3b0c44298fc1c14", ""),
    "DGI": ("4efbc3b9ff145b38", "66813656bf36ec06", ""),
    "MVGRL": ("594aab6c5cf8ae15", "8ca6a7fb248c0f55", ""),
    "MVGRL-plain": ("71e6e76a71ea2802", "8ca6a7fb248c0f55", ""),
    "CCA-SSG": ("4f78d5fb79afccf7", "33f2d33355e4a303", ""),
    "BGRL": ("c70fe5524d1fabe5", "91324301f2de0844", ""),
    "GRACE": ("7aac831743798d21", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "GRACE-all": ("7aac831743798d21", "c2f1e508f35f6e6b", ""),
    "GCA": ("7aac831743798d21", "239e046b01d35675", "db5b1dd05c4e988f"),
    "CLNR": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "nCLNR": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "dCLNR": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "rCLNR": ("4f78d5fb79afccf7", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "GCLNR": ("7aac831743798d21", "c2f1e508f35f6e6b", "db5b1dd05c4e988f"),
    "GCN": ("54c3edf30fbf1719", "5dc557902e5fb990", ""),
    "GAT": ("fe0008d9a4abd9f3", "a279abbe2c6b105d", ""),
}


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


def test_every_method_is_frozen():
    assert FROZEN.keys() == METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_what_it_always_gave(name, device_graph):
    graph = device_graph.graph
    model = METHODS[name].build(recipe_for(name, "toy"))
    weights = model.init(graph.num_features, 7)
    views = model.augment(device_graph, 7, "train", 5)
    nodes = None
    if model.objective is not None:
        nodes = model.objective.nodes(graph.num_nodes, StepContext(Reference(CPU), device_graph, 7, 5, 50))
    drawn_now = (
        digest(sorted(weights.items())),
        digest(pair for index, view in enumerate(views) for pair in drawn(index, view)),
        "" if nodes is None else digest([("nodes", nodes)]),
    )
    assert FROZEN.get(name) == drawn_now, f'FROZEN has no or another line for it: "{name}": {drawn_now!r},'


# -- vectors ----------------------------------------------------------------------------------------------------------------

VECTORS = Path(__file__).parent / "frozen_vectors.json"
SMALL = {"epochs": 3, "hidden": 32, "dimension": 16, "structure": 16, "walk_columns": 16}


def inner_products(name):
    """Of the vectors of a few nodes, after three epochs on the built-in graph with seed 7; 1 is the mean square length.

    On one thread of the CPU in float32. Machines differ in the last bits, and vectors then in signs and rotations, and by
    up to 0.014 here; methods differ by 0.1 and more.
    """
    method = METHODS[name]
    recipe = recipe_for(name, "toy").but(**{key: value for key, value in SMALL.items() if key in method.keys})
    engine = cpu_engine(torch.float32)
    engine.threads = 1
    z = learn(method, load("toy"), 7, recipe, engine).z.double()
    # Where columns are standardised, a bias has no gradient but rounding, which Adam takes for one.
    z -= z.mean(0)
    rows = z[::480]
    products = rows @ rows.T / z.square().sum(1).mean()
    return [round(value, 5) for value in products[tuple(torch.triu_indices(len(rows), len(rows)))].tolist()]


def test_the_vectors_of_every_method_are_frozen():
    assert json.loads(VECTORS.read_text()).keys() == METHODS.keys()


@pytest.mark.parametrize("name", in_tiers())
def test_training_gives_the_vectors_that_it_always_gave(name):
    frozen = json.loads(VECTORS.read_text()).get(name)
    assert inner_products(name) == pytest.approx(frozen, abs=2e-2), f"write them anew: {__name__}.write_vectors()"


def write_vectors():
    """Freeze the vectors of this version: ``python -c "from tests.test_frozen import write_vectors; write_vectors()"``."""
    lines = [f'"{name}": {json.dumps(inner_products(name))}' for name in METHODS]
    VECTORS.write_text("{\n" + ",\n".join(lines) + "\n}\n")

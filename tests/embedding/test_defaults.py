from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from benchmarks._graph_folders import write_graph

from clnr.embedding.defaults import choices, default_recipe
from clnr.graph import Graph
from clnr.methods import CLNR_MIX, METHODS
from clnr.methods.presets import preset
from clnr.methods.recipe import recipe_keys
from tests.conftest import tiny


def graph_of(nodes, degree, features=100):
    ends = np.random.default_rng(0).integers(0, nodes, (2, nodes * degree // 2))
    return Graph.from_edges(*ends, np.zeros((nodes, features)), undirected=True)


def chosen(graph):
    return {choice.key: choice.value for choice in choices(graph, recipe_keys())}


@pytest.mark.parametrize(
    ("key", "fewer", "more"),
    [
        ("epochs", (500, 6), (60_000, 4)),
        ("dimension", (500, 6), (60_000, 4)),
        ("edge_drop", (500, 1), (500, 10)),
        ("feature_mask", (500, 6, 8), (500, 6, 80)),
    ],
)
def test_a_larger_graph_has_more_of_it(key, fewer, more):
    assert chosen(graph_of(*fewer))[key] < chosen(graph_of(*more))[key]


def few_columns(alike, scale=1.0, nodes=1000):
    """Four columns that know a node's class; edges within small circles of one class, or anywhere."""
    random = np.random.default_rng(0)
    labels = np.arange(nodes) // 20 % 4
    source = random.integers(0, nodes, 4 * nodes)
    target = source // 20 * 20 + random.integers(0, 20, len(source)) if alike else random.integers(0, nodes, len(source))
    x = random.standard_normal((nodes, 4)) + 2 * np.eye(4)[labels]
    return Graph.from_edges(source, target, x * [1, 1, 1, scale], undirected=True)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_few_columns_get_structure_beside_them_unless_edges_tell_little(scale, tmp_path):
    for alike, columns in ((True, 256), (False, 0)):
        graph = few_columns(alike, scale)
        assert chosen(graph)["structure"] == columns
        folder = write_graph(graph, tmp_path / str(alike))
        assert chosen(folder)["structure"] == columns
        assert default_recipe(CLNR_MIX, graph)[0].structure == columns
    # From edges alone, and where the user has said.
    assert default_recipe(CLNR_MIX, few_columns(False), featureless=True)[0].structure == 256
    assert "structure" not in [each.key for each in default_recipe(CLNR_MIX, few_columns(False), known=["structure"])[1]]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_one_and_says_why(name):
    method = METHODS[name]
    recipe, why = default_recipe(method, tiny())
    assert all(getattr(recipe, each.key) == each.value and each.reason for each in why)
    assert {each.key for each in why} <= set(method.keys)


def test_what_a_methods_authors_have_set_stays():
    recipe, why = default_recipe(METHODS["DGI"], tiny())
    own = preset(METHODS["DGI"], None).recipe
    assert (recipe.epochs, recipe.dimension) == (own.epochs, own.dimension)
    assert not {"epochs", "dimension"} & {each.key for each in why}


@pytest.mark.parametrize("method", [METHODS["CLNR"], METHODS["BGRL"]], ids=str)
def test_a_data_set_of_the_catalogue_keeps_its_recipe_whole(method):
    graph = dataclasses.replace(tiny(), dataset="photo")
    assert default_recipe(method, graph) == (preset(method, "photo").recipe, [])


def test_a_graphs_name_decides_nothing():
    for other in ("photo", "Photo", "any", "../recipes/photo"):
        assert default_recipe(METHODS["CLNR"], tiny().named(other)) == default_recipe(METHODS["CLNR"], tiny())


def test_moments_are_sampled_where_the_loss_is_and_the_graph_is_larger():
    """A loss that takes all nodes by itself goes on to do so."""
    sampled = {name for name, method in METHODS.items() if default_recipe(method, graph_of(2000, 6))[0].moments == "sampled"}
    clnr = {"CLNR", "nCLNR", "rCLNR", "GCLNR", "GRACE", "GCA"}
    assert sampled == clnr | {f"CLNR-{name}" for name in ("mix", "tuned", "hops", "MLP")}
    assert default_recipe(METHODS["CLNR"], graph_of(1000, 6))[0].moments == "all"

from __future__ import annotations

import numpy as np
import pytest

from clnr.graph import Graph
from clnr.methods import METHODS
from clnr.own.defaults import choices, default_recipe
from clnr.run import shelf
from tests.conftest import tiny


def graph_of(nodes, degree, features=100):
    ends = np.random.default_rng(0).integers(0, nodes, (2, nodes * degree // 2))
    return Graph.from_edges(*ends, np.zeros((nodes, features)), undirected=True)


def chosen(graph):
    return {choice.key: choice.value for choice in choices(graph)}


def test_more_nodes_train_longer_and_wider():
    small, large = chosen(graph_of(500, 6)), chosen(graph_of(60_000, 4, features=10))
    assert small["epochs"] < large["epochs"]
    assert small["dimension"] < large["dimension"]


def test_few_edges_are_spared_and_few_features():
    assert chosen(graph_of(500, 1))["edge_drop"] < chosen(graph_of(500, 10))["edge_drop"]
    assert chosen(graph_of(500, 6, features=8))["feature_mask"] < chosen(graph_of(500, 6, features=80))["feature_mask"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_one_and_says_why(name):
    method = METHODS[name]
    recipe, why = default_recipe(method, tiny())
    assert all(getattr(recipe, each.key) == each.value and each.reason for each in why)
    assert {each.key for each in why} <= set(method.keys)


def test_what_a_methods_authors_have_set_stays():
    recipe, why = default_recipe(METHODS["DGI"], tiny())
    own = shelf(METHODS["DGI"], "tiny").recipe
    assert (recipe.epochs, recipe.dimension) == (own.epochs, own.dimension)
    assert not {"epochs", "dimension"} & {each.key for each in why}


def test_a_data_set_of_the_catalogue_keeps_its_recipe():
    recipe, _ = default_recipe(METHODS["CLNR"], tiny().named("cora"))
    own = shelf(METHODS["CLNR"], "cora").recipe
    assert (recipe.epochs, recipe.dimension, recipe.feature_mask) == (own.epochs, own.dimension, own.feature_mask)

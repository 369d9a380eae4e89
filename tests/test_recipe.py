from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from clnr.data import DATASETS
from clnr.errors import RecipeError, UnknownName
from clnr.methods import CLNR, METHODS, UNTRAINED
from clnr.recipe import KEYS, Recipe, parse
from clnr.run import shelf

# The paper's table of hyper-parameters, typed from its print, and the CLNR row of its table of accuracies.
COLUMNS = """
epochs layers dimension temperature learning_rate weight_decay feature_mask edge_drop probe_learning_rate probe_weight_decay
"""
PAPER = """
cora        50  2 512 0.5 1e-3 0 0.2 0.5 5e-3 1e-4  84.3 0.6
citeseer    50  1 512 0.5 1e-3 0 0.2 0.5 1e-2 1e-2  73.1 0.7
pubmed     600  2 512 0.5 1e-3 0 0.3 0.5 1e-2 1e-4  83.0 0.6
computers  200  2 512 0.5 1e-3 0 0.0 0.5 1e-2 1e-4  89.5 0.4
photo      100  2 512 0.5 1e-3 0 0.0 0.5 1e-2 1e-4  93.2 0.3
cs         600  2 512 0.5 1e-3 0 0.3 0.1 5e-3 1e-2  93.8 0.2
physics     50  2 512 0.5 1e-3 0 0.2 0.4 5e-3 1e-4  95.5 0.1
ogbn-arxiv 5000 3 512 0.5 1e-2 0 0.0 0.5 1e-2 1e-4  70.4 0.3
"""


@pytest.mark.parametrize("line", PAPER.strip().splitlines())
def test_recipes_are_the_papers(line):
    dataset, *numbers, accuracy, spread = line.split()
    found = shelf(CLNR, dataset)
    values = found.recipe.to_dict()
    assert [values[name] for name in COLUMNS.split()] == [float(number) for number in numbers]
    assert (found.published.accuracy, found.published.spread) == (float(accuracy), float(spread))
    assert values["encoder"] == ("mlp" if dataset == "cs" else "gcn")
    assert (values["hidden"], values["mask"], values["sampled_nodes"], values["probe_steps"]) == (512, "columns", 1024, 2000)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_has_a_recipe_for_every_data_set_with_its_sources(method, dataset):
    found = shelf(method, dataset)
    assert found.row in method.lineage
    assert set(found.sources) == set(KEYS)
    assert all(found.sources.values())


def test_every_file_on_the_shelf_is_a_data_sets_and_every_row_a_methods():
    for file in (resources.files("clnr") / "recipes").iterdir():
        assert file.name.removesuffix(".toml") in DATASETS
        assert set(tomllib.loads(file.read_text())) <= set(METHODS)


def test_a_variant_uses_its_parents_numbers_but_not_its_result():
    found = shelf(UNTRAINED, "cora")
    assert (found.row, found.recipe, found.published) == ("CLNR", shelf(CLNR, "cora").recipe, None)


def test_a_data_set_off_the_shelf_gets_the_defaults():
    found = shelf(CLNR, "mine")
    assert (found.row, found.recipe, found.published) == (None, Recipe(), None)


def test_toml_there_and_back():
    recipe = Recipe(epochs=7, temperature=0.123456789, mask="elements", learning_rate=1e-7)
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    with pytest.raises(RecipeError, match="not a recipe in TOML"):
        Recipe.from_toml("epochs = ")


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"epoch": 3}, UnknownName, "unknown recipe key 'epoch'; did you mean 'epochs'"),
        ({"lr": 3}, UnknownName, "unknown recipe key 'lr'"),
        ({"mask": "rows"}, UnknownName, "unknown value of mask 'rows'.*columns, elements"),
        ({"epochs": -1}, RecipeError, "epochs must be from 0 to 1e.07, not -1"),
        ({"epochs": 2.5}, RecipeError, "epochs must be a whole number, not 2.5"),
        ({"epochs": True}, RecipeError, "epochs must be a whole number, not True"),
        ({"temperature": 0}, RecipeError, "temperature must be from 0.001"),
        ({"temperature": float("nan")}, RecipeError, "temperature must be from"),
        ({"edge_drop": 1.1}, RecipeError, "edge_drop must be from 0 to 1, not 1.1"),
        ({"learning_rate": "fast"}, RecipeError, "learning_rate must be a number, not 'fast'"),
    ],
)
def test_bad_values_name_themselves_and_what_would_be_right(values, error, words):
    with pytest.raises(error, match=words):
        Recipe.of(values)


def test_assignments_are_read_as_their_keys_type():
    given = ["epochs=3", " temperature = 0.2", "mask=elements", "edge_drop=0"]
    assert parse(given) == {"epochs": 3, "temperature": 0.2, "mask": "elements", "edge_drop": 0.0}


@pytest.mark.parametrize("word", ["epochs", "epochs=", "epochs=many", "epochs=1e3", "temperature=warm"])
def test_bad_assignments(word):
    with pytest.raises(RecipeError):
        parse([word])


def test_recipes_are_values():
    assert Recipe(epochs=3) == Recipe(epochs=3)
    assert hash(Recipe(epochs=3)) != hash(Recipe(epochs=4))
    assert isinstance(Recipe(temperature=1).temperature, float)

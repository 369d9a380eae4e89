from __future__ import annotations

import copy
import pickle
import tomllib
from importlib import resources

import pytest

from clnr.datasets import DATASETS
from clnr.errors import ClnrError, RecipeError, UnknownName
from clnr.methods import CLNR, METHODS, presets
from clnr.methods.presets import ANY_DATASET, Published, preset
from clnr.methods.recipe import Recipe, parse, recipe_keys

# The paper's table of hyper-parameters, typed from its print.
COLUMNS = """
epochs layers dimension temperature learning_rate weight_decay feature_mask edge_drop probe_learning_rate probe_weight_decay
"""
PAPER = """
cora        50  2 512 0.5 1e-3 0 0.2 0.5 5e-3 1e-4
citeseer    50  1 512 0.5 1e-3 0 0.2 0.5 1e-2 1e-2
pubmed     600  2 512 0.5 1e-3 0 0.3 0.5 1e-2 1e-4
computers  200  2 512 0.5 1e-3 0 0.0 0.5 1e-2 1e-4
photo      100  2 512 0.5 1e-3 0 0.0 0.5 1e-2 1e-4
cs         600  2 512 0.5 1e-3 0 0.3 0.1 5e-3 1e-2
physics     50  2 512 0.5 1e-3 0 0.2 0.4 5e-3 1e-4
ogbn-arxiv 5000 3 512 0.5 1e-2 0 0.0 0.5 1e-2 1e-4
"""

# Its table of accuracies; MVGRL ran out of memory on the last.
SETS = ("cora", "citeseer", "pubmed", "computers", "photo", "cs", "physics", "ogbn-arxiv")
ACCURACIES = """
GAE      71.5 0.4  65.8 0.4  72.1 0.5  85.3 0.2  91.6 0.1  90.0 0.7  94.9 0.1  52.57 0.1
DGI      82.3 0.6  71.8 0.7  76.8 0.6  84.0 0.5  91.6 0.2  92.2 0.6  94.5 0.5  67.95 0.6
MVGRL    83.5 0.4  73.3 0.5  80.1 0.7  87.5 0.1  91.7 0.1  92.1 0.1  95.3 0.1
CCA-SSG  84.2 0.4  73.1 0.3  81.6 0.4  88.7 0.3  93.1 0.1  93.3 0.2  95.4 0.1  60.5  0.2
BGRL     82.1 1.0  71.8 0.5  80.6 1.0  89.0 0.4  92.7 0.4  92.0 0.2  94.5 0.3  70.3  0.1
GRACE    83.6 0.8  71.8 1.1  81.6 0.9  89.1 0.4  93.3 0.4  93.6 0.3  95.3 0.1  69.8  0.1
CLNR     84.3 0.6  73.1 0.7  83.0 0.6  89.5 0.4  93.2 0.3  93.8 0.2  95.5 0.1  70.4  0.3
GCN      81.5 0.7  70.3 0.7  79.0 0.3  86.5 0.5  92.4 0.2  93.0 0.3  95.7 0.2  71.7  0.3
GAT      83.0 0.7  72.5 0.7  79.0 0.3  86.9 0.3  92.6 0.4  92.3 0.2  95.5 0.2  71.7  0.3
"""

# What other papers' authors ran with, where it is known: a method, its data sets, and their numbers.
AUTHORS = """
GRACE all temperature=0.5 sampled_nodes=1024 head_width=0
GRACE cora epochs=400 learning_rate=5e-4
GRACE citeseer epochs=100 learning_rate=5e-4
GRACE pubmed,computers,photo,cs,physics epochs=1000 learning_rate=1e-3
GRACE ogbn-arxiv epochs=10000
CCA-SSG cora,citeseer,pubmed,computers,photo,cs,physics hidden=512 dimension=512 learning_rate=1e-3 weight_decay=0
CCA-SSG cora,pubmed,computers,photo,cs,physics layers=2 probe_weight_decay=1e-4
CCA-SSG cora,citeseer,pubmed,computers,photo probe_learning_rate=1e-2
CCA-SSG cora,citeseer,pubmed,computers,photo,physics encoder=gcn
CCA-SSG cora epochs=50 decorrelation=1e-3 feature_mask=0.1 edge_drop=0.4
CCA-SSG citeseer epochs=20 decorrelation=5e-4 feature_mask=0 edge_drop=0.4 layers=1 probe_weight_decay=1e-2
CCA-SSG pubmed epochs=100 decorrelation=1e-3 feature_mask=0.3 edge_drop=0.5
CCA-SSG computers epochs=50 decorrelation=5e-4 feature_mask=0.1 edge_drop=0.3
CCA-SSG photo epochs=50 decorrelation=1e-3 feature_mask=0.2 edge_drop=0.3
CCA-SSG cs epochs=50 decorrelation=1e-3 feature_mask=0.2 probe_learning_rate=5e-3 encoder=mlp
CCA-SSG physics epochs=100 decorrelation=1e-3 feature_mask=0.5 edge_drop=0.5 probe_learning_rate=5e-3
BGRL cs,physics,computers,photo epochs=10000
BGRL cs hidden=512 dimension=256 edge_drop=0.3 edge_drop_2=0.2 feature_mask=0.3 feature_mask_2=0.4 learning_rate=1e-5
BGRL physics hidden=256 dimension=128 edge_drop=0.4 edge_drop_2=0.1 feature_mask=0.1 feature_mask_2=0.4 learning_rate=1e-5
BGRL computers hidden=256 dimension=128 edge_drop=0.5 edge_drop_2=0.4 feature_mask=0.2 feature_mask_2=0.1 learning_rate=5e-4
BGRL photo hidden=256 dimension=128 edge_drop=0.4 edge_drop_2=0.1 feature_mask=0.1 feature_mask_2=0.2 learning_rate=1e-4
BGRL cora,citeseer,pubmed momentum=0.99 weight_decay_mode=decoupled weight_decay=1e-5 warmup=0.1 head_width=512
DGI cora,citeseer,pubmed layers=1 dimension=512 learning_rate=1e-3 epochs=10000 patience=20
MVGRL cora,citeseer,pubmed layers=1 dimension=512 learning_rate=1e-3 epochs=3000 patience=20 ppr_alpha=0.2
GAE cora,citeseer,pubmed layers=2 hidden=32 dimension=16 learning_rate=1e-2 epochs=200
"""


@pytest.mark.parametrize("line", PAPER.strip().splitlines())
def test_recipes_are_the_papers(line):
    dataset, *numbers = line.split()
    values = preset(CLNR, dataset).recipe.to_dict()
    assert [values[name] for name in COLUMNS.split()] == [float(number) for number in numbers]
    assert values["encoder"] == ("mlp" if dataset == "cs" else "gcn")
    assert values | parse(["hidden=512", "feature_mask_mode=columns", "sampled_nodes=1024", "probe_steps=2000"]) == values


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_published_results_are_the_papers(method):
    lines = {line.split()[0]: line.split()[1:] for line in ACCURACIES.strip().splitlines()}
    numbers = [float(number) for number in lines.get(method.name, [])]
    printed = dict(zip(SETS, zip(numbers[::2], numbers[1::2], strict=True), strict=False))
    for dataset in DATASETS:
        published = preset(method, dataset).published
        assert (published and published[:2]) == printed.get(dataset), dataset


@pytest.mark.parametrize("line", AUTHORS.strip().splitlines())
def test_rivals_have_their_authors_numbers(line):
    name, datasets, *numbers = line.split()
    for dataset in SETS if datasets == "all" else datasets.split(","):
        values = preset(METHODS[name], dataset).recipe.to_dict()
        assert values | parse(numbers) == values, dataset


@pytest.mark.parametrize("dataset", SETS)
def test_grace_differs_from_clnr_in_epochs_and_learning_rate_alone(dataset):
    ours, theirs = (preset(METHODS[name], dataset).recipe.to_dict() for name in ("CLNR", "GRACE"))
    assert {key for key in recipe_keys() if ours[key] != theirs[key]} <= {"epochs", "learning_rate"}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_has_a_recipe_for_every_data_set_with_its_sources(method):
    for dataset in DATASETS:
        shipped = preset(method, dataset)
        assert shipped.row in method.ancestry, dataset
        assert set(shipped.sources) == set(recipe_keys()), dataset
        assert all(shipped.sources.values()), dataset


def test_every_file_of_recipes_is_a_data_sets_and_every_row_a_methods():
    for file in (resources.files("clnr.methods") / "recipes").iterdir():
        assert file.name.removesuffix(".toml") in {*DATASETS, ANY_DATASET}
        rows = tomllib.loads(file.read_text())
        assert set(rows) <= set(METHODS)
        for name, row in rows.items():
            own = set(row) - {"source", "sources", "published"}
            strange = sorted(own - set(METHODS[name].keys))
            assert not strange, f"{file.name}: {name} has no use for {strange}"
            assert not own or row.get("source"), f"{file.name}: {name} has no source"
            assert file.name != f"{ANY_DATASET}.toml" or "published" not in row, (
                "a published result belongs to a data set's file"
            )
            assert set(row.get("sources", {})) <= own


# -- how rows make a recipe ------------------------------------------------------------------------------------------------

PRESETS = {
    "any": {
        "old": {"source": "old, anywhere", "epochs": 1, "layers": 1, "hidden": 1, "dimension": 1},
        "new": {"source": "new, anywhere", "hidden": 3, "dimension": 3},
    },
    "here": {
        "old": {"source": "old, here", "layers": 2, "hidden": 2, "published": {"accuracy": 1, "spread": 2, "source": "x"}},
        "new": {"source": "new, here", "dimension": 4, "heads": 4, "sources": {"heads": "a guess"}},
    },
}


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(presets, "_presets", lambda dataset: PRESETS.get(dataset, {}))


OLD = CLNR.but("old", "")
NEW = OLD.but("new", "")


def test_rows_are_merged_parents_first_and_the_data_sets_own_last(rows):
    merged = preset(NEW, "here")
    assert merged.recipe == Recipe(epochs=1, layers=2, hidden=3, dimension=4, heads=4)
    said = ("old, anywhere", "old, here", "new, anywhere", "new, here", "a guess")
    assert tuple(merged.sources[key] for key in ("epochs", "layers", "hidden", "dimension", "heads")) == said
    assert merged.sources["temperature"] == recipe_keys()["temperature"].source
    assert (merged.row, merged.published) == ("new", None)
    assert preset(NEW, "there").recipe == Recipe(epochs=1, layers=1, hidden=3, dimension=3)
    # The nearest ancestor with numbers names the row, and a result is nobody else's.
    assert preset(OLD.but("unheard of", ""), "here") == preset(OLD, "here")._replace(published=None)
    assert preset(OLD, "here").published == Published(1, 2, "x")


# -- values ----------------------------------------------------------------------------------------------------------------


def test_a_graph_without_a_preset_gets_the_defaults():
    shipped = preset(CLNR, None)
    assert (shipped.row, shipped.recipe, shipped.published) == (None, Recipe(), None)


def test_toml_there_and_back():
    recipe = Recipe(epochs=7, temperature=0.123456789, feature_mask_mode="elements", learning_rate=1e-7)
    for each in (Recipe(), recipe, recipe.but(edge_drop_2=0.25, feature_mask_2=0.0)):
        assert Recipe.of(tomllib.loads(each.to_toml())) == each
    assert "edge_drop_2" not in recipe.to_toml()


def test_a_value_nested_too_deeply_to_be_shown_is_refused_in_one_line():
    # Some versions of Python show all of it, and others nothing.
    with pytest.raises(ClnrError, match="epochs must be a whole number, not ") as caught:
        Recipe.of(tomllib.loads("epochs" + ".a" * 2000 + " = 1"))
    assert len(str(caught.value)) < 1100


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"epoch": 3}, UnknownName, "unknown recipe key 'epoch'; did you mean 'epochs'"),
        ({"feature_mask_mode": "rows"}, UnknownName, "unknown value of feature_mask_mode 'rows'.*columns, elements"),
        ({"epochs": -1}, RecipeError, "epochs must be from 0 to 1e.07, not -1"),
        ({"epochs": 2.5}, RecipeError, "epochs must be a whole number, not 2.5"),
        ({"epochs": True}, RecipeError, "epochs must be a whole number, not True"),
        ({"temperature": float("nan")}, RecipeError, "temperature must be from"),
        ({"learning_rate": "fast"}, RecipeError, "learning_rate must be a number, not 'fast'"),
    ],
)
def test_bad_values_name_themselves_and_what_would_be_right(values, error, words):
    with pytest.raises(error, match=words):
        Recipe.of(values)


def test_assignments_are_read_as_their_keys_type():
    given = ["epochs=3", " temperature = 0.2", "feature_mask_mode=elements", "edge_drop=0"]
    assert parse(given) == {"epochs": 3, "temperature": 0.2, "feature_mask_mode": "elements", "edge_drop": 0.0}


@pytest.mark.parametrize("word", ["epochs", "epochs=", "epochs=many", "epochs=1e3", "temperature=warm"])
def test_bad_assignments(word):
    with pytest.raises(RecipeError):
        parse([word])


def test_only_the_second_view_reads_the_second_views_keys():
    recipe = Recipe(edge_drop=0.1, feature_mask=0.2, edge_drop_2=0.3)
    assert recipe.of_view(0) == recipe.of_view(2) == recipe
    assert recipe.of_view(1) == recipe.but(edge_drop=0.3)
    assert recipe.but(feature_mask_2=0.0).of_view(1).feature_mask == 0.0
    assert Recipe().of_view(1) == Recipe()
    seconds = ["edge_drop_2", "feature_mask_2"]
    assert [key for key, each in recipe_keys().items() if each.default is None] == seconds
    assert Recipe.of({"edge_drop_2": None}) == Recipe()
    assert parse(["edge_drop_2=1"]) == {"edge_drop_2": 1.0}
    for wrong, said in ({"edge_drop_2": 2}, "from 0 to 1, not 2"), ({"edge_drop": None}, "a number, not None"):
        with pytest.raises(RecipeError, match=said):
            Recipe.of(wrong)


def test_recipes_are_values():
    assert Recipe(epochs=3) == Recipe(epochs=3)
    assert hash(Recipe(epochs=3)) != hash(Recipe(epochs=4))
    assert isinstance(Recipe(temperature=1).temperature, float)
    assert pickle.loads(pickle.dumps(Recipe(epochs=3))) == copy.deepcopy(Recipe(epochs=3)) == Recipe(epochs=3)
    assert Recipe() != Recipe().to_dict()
    assert {"epochs", "but"} <= set(dir(Recipe()))


def test_recipes_do_not_change():
    recipe = Recipe()
    with pytest.raises(AttributeError, match=r"a recipe is immutable; use recipe.but\(epochs=...\)"):
        recipe.epochs = 3
    recipe.to_dict()["epochs"] = 3
    assert recipe == Recipe()
    with pytest.raises(AttributeError, match="a recipe has no 'epoch'"):
        recipe.epoch  # noqa: B018

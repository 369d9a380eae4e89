from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from clnr.datasets import load, split_of
from clnr.engine import cpu_engine
from clnr.errors import DataError, RecipeError, TrainingError, UnknownName
from clnr.experiments.grid_search import Trial, best_first, grid, hide_test_labels, some_of, try_all
from clnr.experiments.run_cache import RunCache
from clnr.experiments.runner import Runner
from clnr.methods import METHODS
from clnr.methods.recipe import Recipe
from clnr.support.progress import Bar
from tests.command_line import assert_refused
from tests.conftest import tiny
from tests.experiments.test_run_cache import made

QUICK = Recipe(hidden=16, dimension=8, epochs=3, probe_steps=20)


def runner(seeds=2):
    return Runner(seeds, cpu_engine(), RunCache(), rerun=True, bar=Bar(None, quiet=True))


def tried(*given):
    return best_first(list(try_all(*given)))


def trials(*over):
    return [Trial(changes, QUICK.but(**changes)) for changes in grid(list(over))]


# -- what to try -----------------------------------------------------------------------------------------------------------


def test_a_grid_is_all_combinations_in_the_order_given():
    assert grid(["epochs=3,5", "feature_mask_mode=columns,elements"]) == [
        {"epochs": 3, "feature_mask_mode": "columns"},
        {"epochs": 3, "feature_mask_mode": "elements"},
        {"epochs": 5, "feature_mask_mode": "columns"},
        {"epochs": 5, "feature_mask_mode": "elements"},
    ]
    assert grid([" temperature = 0.5 , 1 "]) == [{"temperature": 0.5}, {"temperature": 1.0}]


def test_some_of_a_grid_are_distinct_and_always_the_same():
    whole = grid(["epochs=1,2,3", "layers=1,2", "temperature=1,2,3,4"])
    assert some_of(whole, None) == whole
    some = some_of(whole, 7)
    assert some == some_of(whole, 7) != whole[:7]
    assert len({str(each) for each in some}) == 7
    assert all(each in whole for each in some)
    assert sorted(map(str, some_of(whole, 1000))) == sorted(map(str, whole))


@pytest.mark.parametrize(
    ("over", "error", "said"),
    [
        ([], RecipeError, "missing --grid key=a,b,c with the values to try"),
        (["epochs"], RecipeError, "'epochs' is not of the form key=a,b,c"),
        (["epochs=1,,2"], RecipeError, "epochs must be a whole number, not ''"),
        (["epoch=1,2"], UnknownName, "did you mean 'epochs'"),
        (["epochs=1", "layers=1", "epochs=2"], RecipeError, "epochs is in --grid twice"),
    ],
)
@pytest.mark.usefixtures("options")
def test_bad_words(over, error, said):
    with pytest.raises(error, match=said):
        grid(over)


# -- test labels are taken away --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("graph", [tiny(60, 150), load("toy")], ids=["random split", "published split"])
def test_no_test_label_survives_and_validation_nodes_stand_for_test_nodes(graph, seed):
    split, seen = split_of(graph, seed), hide_test_labels(graph, seed)
    known = np.union1d(split.train, split.validation)
    assert not np.intersect1d(known, split.test).size
    np.testing.assert_array_equal(np.flatnonzero(seen.labels >= 0), known)
    np.testing.assert_array_equal(seen.labels[known], graph.labels[known])
    for part, nodes in zip(split_of(seen, seed), (split.train, split.validation, split.validation), strict=True):
        np.testing.assert_array_equal(part, nodes)
    assert seen.features is graph.features
    assert seen.name == graph.name
    assert graph.labels.min() == 0


def permuted(graph, seeds=1):
    """Labels moved about among the nodes that test every one of the seeds."""
    always = [set(split_of(graph, seed).test.tolist()) for seed in range(seeds)]
    nodes = np.array(sorted(set.intersection(*always)))
    labels = graph.labels.copy()
    labels[nodes] = labels[np.roll(nodes, 1)]
    assert (labels != graph.labels).sum() > 10
    return dataclasses.replace(graph, labels=labels)


@pytest.mark.parametrize("method", ["CLNR", "GCN", "Raw"])
def test_test_labels_change_nothing_in_a_search(method):
    graph, over = tiny(300, 700), trials("layers=1,2", "feature_mask=0,0.5")
    timeless = [
        [dataclasses.asdict(trial) for trial in tried(runner(), METHODS[method], each, over)]
        for each in (graph, permuted(graph, 2))
    ]
    for trial in (trial for each in timeless for trial in each):
        for run in trial["runs"]:
            for name in ("train_seconds", "epoch_ms", "seconds", "peak_memory_bytes"):
                del run[name]
    assert timeless[0] == timeless[1]


def test_a_graph_without_labels_has_nothing_to_choose_by():
    with pytest.raises(DataError, match="no labels to choose a recipe by"):
        hide_test_labels(tiny().without_labels(), 0)


# -- which is best ---------------------------------------------------------------------------------------------------------


def test_trials_are_in_the_order_of_mean_validation_accuracy_the_first_of_equals_before(monkeypatch):
    scores = {1: (50, 70), 2: (90, 90), 3: (60, 60), 4: (89, 91), 5: (0, 100)}
    asked = []

    def scripted(self, method, graph, seeds, recipe, note):
        (seed,) = seeds
        asked.append((recipe.layers, seed, graph.labels.min()))
        yield made(seed, validation=scores[recipe.layers][seed], strict=100 - scores[recipe.layers][seed])

    monkeypatch.setattr(Runner, "make", scripted)
    ordered = tried(runner(), METHODS["CLNR"], tiny(60, 150), trials("layers=1,2,3,4,5"))
    assert [trial.changes["layers"] for trial in ordered] == [2, 4, 1, 3, 5]
    assert sorted(asked) == [(layers, seed, -1) for layers in range(1, 6) for seed in range(2)]


def test_a_trial_tells_its_changes_and_the_mean_over_seeds():
    runs = (made(0, validation=70, epochs=10), made(1, validation=80, epochs=13))
    told = Trial({"layers": 1}, QUICK.but(layers=1), runs).to_dict()
    assert told["changes"] == {"layers": 1}
    assert told["validation"] == {"mean": 75, "std": 5, "runs": [70, 80]}
    assert told["epochs"] == 11.5
    assert told["recipe"] == QUICK.but(layers=1).to_dict()
    assert told["failure"] is None
    assert "strict" not in told


def test_a_recipe_under_which_training_breaks_is_a_trial_that_failed_and_comes_last():
    deep = QUICK.but(layers=64, hidden=64, dimension=64, epochs=1)
    rates = [Trial({"learning_rate": rate}, deep.but(learning_rate=rate)) for rate in (1.0, 1e-6)]
    right, failed = tried(runner(1), METHODS["CLNR"], tiny(60, 150), rates)
    assert (right.changes, right.failure, len(right.runs)) == ({"learning_rate": 1e-6}, None, 1)
    assert "not finite" in failed.failure
    assert failed.runs == ()
    never_right = dataclasses.replace(right, runs=(made(0, validation=0),))
    assert best_first([failed, never_right]) == [never_right, failed]


# -- the command -----------------------------------------------------------------------------------------------------------


def test_search_prints_a_table_and_goes_on_after_a_trial_that_failed(clnr, monkeypatch):
    def stops(self, method, graph, seeds, recipe, note):
        if recipe.learning_rate == 10:
            raise TrainingError("the loss became nan")
        return [made(seed) for seed in seeds]

    monkeypatch.setattr(Runner, "make", stops)
    ended = clnr("search", "--grid", "learning_rate=10,0.001", "--seeds", "1", "--device", "cpu")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].startswith("CLNR on toy, 1 seed, ")
    assert lines[2].split()[0] == "learning_rate"
    assert len(lines[-2].split()) == 4
    assert lines[-1].split() == ["10", "failed"]
    assert "strict" not in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["DGI", "--grid", "edge_drop=0.1,0.5"], "edge_drop cannot be searched for DGI"),
        (["GCN", "--grid", "probe_steps=1,2"], "GCN has no use for probe_steps"),
        (["--grid", "epochs=1,2", "--set", "momentum=0.1"], "CLNR has no use for momentum"),
        (["--grid", "epochs=1,2", "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["--grid", "epochs=1,2", "--trials", "0"], "--trials must be at least 1, not 0"),
        (["cora", "--grid", "epochs=1"], "'cora' is a data set; the method comes first"),
    ],
)
def test_what_cannot_be_searched_is_one_line_before_data_is_loaded(clnr, monkeypatch, words, said):
    monkeypatch.setattr("clnr.datasets.load", lambda *arguments: pytest.fail("it began to load"))
    assert said in assert_refused(clnr("search", *words))


def test_a_search_that_is_stopped_shows_what_it_has(clnr, monkeypatch):
    def stops(self, method, graph, seeds, recipe, note):
        if recipe.epochs == 3:
            raise KeyboardInterrupt
        return [made(seed, validation=70 + recipe.epochs) for seed in seeds]

    monkeypatch.setattr(Runner, "make", stops)
    ended = clnr("search", "--grid", "epochs=1,2,3", "--seeds", "1", "--device", "cpu", "--json")
    assert ended.code == 130
    assert [each["validation"]["mean"] for each in json.loads(ended.out)] == [72, 71]
    assert "stopped after 2 of 3 trials" in ended.err
    assert "in the run cache" not in ended.err


def test_seeds_of_one_split_are_run_in_parallel_and_the_bar_names_the_trial(monkeypatch):
    asked = []

    def scripted(self, method, graph, seeds, recipe, note):
        asked.append((note, seeds))
        return [made(seed) for seed in seeds]

    monkeypatch.setattr(Runner, "make", scripted)
    graph = tiny(60, 150)
    tried(runner(2), METHODS["CLNR"], graph, trials("layers=1"))
    split = dataclasses.replace(graph, split=split_of(graph, 0))
    tried(runner(2), METHODS["CLNR"], split, trials("layers=1", "feature_mask_mode=elements"))
    assert asked == [("layers=1", [0]), ("layers=1", [1]), ("layers=1, feature_mask_mode=elements", [0, 1])]

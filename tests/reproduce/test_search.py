from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from reproduce.search import Trial, grid, hide_test_labels, ranking, trials, try_all

from clnr import METHODS, load, run
from clnr.datasets.splits import split_of
from clnr.errors import DataError, RecipeError, UnknownName
from clnr.methods.recipe import Recipe
from reproduce import search
from tests.conftest import tiny
from tests.experiments.test_run_cache import made

QUICK = Recipe(hidden=16, dimension=8, epochs=3, probe_steps=20)


def planned(*values):
    return [Trial(changes, QUICK.but(**changes)) for changes in grid(values)]


def test_a_grid_is_all_combinations_in_the_order_given():
    pairs = [(3, "columns"), (3, "elements"), (5, "columns"), (5, "elements")]
    expected = [{"epochs": epochs, "feature_mask_mode": mode} for epochs, mode in pairs]
    assert grid(["epochs=3,5", "feature_mask_mode=columns,elements"]) == expected


@pytest.mark.parametrize(
    ("method", "values"),
    [
        *(("CLNR", each) for each in (["epochs=1,,2"], ["epoch=1,2"], ["epochs=1", "layers=1", "epochs=2"])),
        *(("DGI", ["edge_drop=0.1,0.5"]), ("GCN", ["probe_steps=1,2"])),
    ],
)
def test_what_cannot_be_searched_is_refused(method, values):
    with pytest.raises((RecipeError, UnknownName), match=values[0].partition("=")[0]):
        trials(METHODS[method], "toy", [], values)


@pytest.mark.parametrize("graph", [tiny(60, 150), load("toy")], ids=["random split", "published split"])
def test_no_test_label_survives_and_validation_nodes_stand_for_test_nodes(graph):
    split, seen = split_of(graph, 2), hide_test_labels(graph, 2)
    known = np.union1d(split.train, split.validation)
    assert not np.intersect1d(known, split.test).size
    np.testing.assert_array_equal(np.flatnonzero(seen.labels >= 0), known)
    np.testing.assert_array_equal(seen.labels[known], graph.labels[known])
    for part, nodes in zip(split_of(seen, 2), (split.train, split.validation, split.validation), strict=True):
        np.testing.assert_array_equal(part, nodes)
    assert graph.labels.min() == 0
    with pytest.raises(DataError):
        hide_test_labels(graph.without_labels(), 0)


@pytest.mark.parametrize("method", ["CLNR", "GCN"])
def test_test_labels_change_nothing_in_a_search(method):
    graph, labels = tiny(300, 700), tiny(300, 700).labels.copy()
    always = sorted(set.intersection(*(set(split_of(graph, seed).test.tolist()) for seed in range(2))))
    labels[always] = labels[np.roll(always, 1)]
    assert (labels != graph.labels).sum() > 10
    found = []
    for each in (graph, dataclasses.replace(graph, labels=labels)):
        tried = try_all(METHODS[method], each, planned("layers=1,2", "feature_mask=0,0.5"), 2, device="cpu")
        found.append([(run.seed, run.strict, run.validation, run.uniformity) for trial in tried for run in trial.runs])
    assert found[0] == found[1]
    assert found[0][0][2] == run(method, graph, 0, recipe=QUICK.but(layers=1, feature_mask=0.0), device="cpu").validation


def test_trials_are_ranked_by_mean_validation_accuracy_the_first_of_equals_before_and_failures_last():
    scores = {1: (50, 70), 2: (90, 90), 3: (60, 60), 4: (89, 91), 5: ()}
    tried = [
        Trial({"layers": each}, QUICK, tuple(made(i, validation=x) for i, x in enumerate(scores[each]))) for each in scores
    ]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in ranking(tried).splitlines()[2:]]
    assert [line[0] for line in lines] == ["2", "4", "1", "3", "5"]
    assert lines[2][1:3] == ["60.00", "10.00"]
    assert lines[4][1] == "failed"


def test_a_recipe_under_which_training_breaks_is_a_trial_that_failed():
    deep = QUICK.but(layers=64, hidden=64, dimension=64, epochs=1)
    rates = [Trial({"learning_rate": rate}, deep.but(learning_rate=rate)) for rate in (1.0, 1e-6)]
    failed, right = try_all(METHODS["CLNR"], tiny(60, 150), rates, 1, device="cpu")
    assert (right.failure, len(right.runs)) == ("", 1)
    assert "not finite" in failed.failure
    assert failed.runs == ()


def test_seeds_of_one_split_are_run_in_parallel(monkeypatch):
    asked, graph = [], tiny(60, 150)
    monkeypatch.setattr(search, "runs", lambda method, graph, seeds, **more: asked.append(seeds) or map(made, seeds))
    for each in (graph, dataclasses.replace(graph, split=split_of(graph, 0))):
        list(try_all(METHODS["CLNR"], each, planned("layers=1"), 2))
    assert asked == [[0], [1], [0, 1]]

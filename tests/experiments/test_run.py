from __future__ import annotations

import dataclasses
import importlib
import statistics

import numpy as np
import pytest
import torch

from clnr import CLNR, ClnrError, Graph, Recipe, Summary, load, recipe_for, run, runs
from clnr.datasets.noise import with_noise
from clnr.datasets.splits import split_of
from clnr.engine import View, cpu_engine, unit_rows
from clnr.errors import DataError, OutOfMemory
from clnr.evaluation import geometry
from clnr.evaluation.metrics import fresh_views
from clnr.experiments.learn import learn, supervision_of
from clnr.graph import Split
from clnr.methods import METHODS
from clnr.nn.encoders.encoder import NoEncoder
from clnr.training.loop import fit
from tests.cases import in_tiers
from tests.conftest import tiny

QUICK = Recipe(hidden=16, dimension=8, heads=2, epochs=4, probe_steps=30)
TAUGHT = [method for method in METHODS.values() if method.supervised]
NAMED = {"ids": lambda method: method.name}
MEASURES = ("strict", "paper", "validation", "alignment", "uniformity", "effective_rank")


def measures(result):
    return [getattr(result, name) for name in MEASURES]


def test_a_name_is_as_good_as_the_thing():
    by_name = run("clnr", "Toy", 1, recipe=QUICK, device="cpu")
    assert measures(by_name) == measures(run(CLNR, load("toy"), 1, recipe=QUICK, device="cpu"))
    assert (by_name.method, by_name.dataset, by_name.seed) == ("CLNR", "toy", 1)
    assert by_name.recipe == QUICK.to_dict()
    assert by_name.content == load("toy").digest


# -- who sees which labels -------------------------------------------------------------------------------------------------


@pytest.fixture
def embeddings(monkeypatch):
    """Makes a run and returns its embedding, parameters and result."""
    seen = []
    module = importlib.import_module("clnr.experiments.run")
    learn = module.learn_seeds

    def kept(*arguments, **more):
        learned = learn(*arguments, **more)
        seen.extend(learned)
        return learned

    monkeypatch.setattr(module, "learn_seeds", kept)

    def make(method, graph, recipe):
        result = run(method, graph, 1, recipe=recipe, device="cpu")
        return seen[-1].z, seen[-1].fitted.parameters, result

    return make


def relabelled(graph, nodes, shift=1):
    """Every one of these nodes with another of the three labels."""
    labels = graph.labels.copy()
    labels[nodes] = (labels[nodes] + shift) % 3
    return dataclasses.replace(graph, labels=labels)


def assert_equal(one, other):
    assert torch.equal(one[0], other[0])
    assert all(torch.equal(value, other[1][name]) for name, value in one[1].items())


@pytest.mark.parametrize("method", in_tiers(METHODS.values()))
def test_test_labels_decide_nothing_but_the_report(method, embeddings):
    """Of a node's three possible labels its prediction is right for one, so that the three accuracies add up to all.

    What an unsupervised method learns is decided by no label at all.
    """
    graph, recipe = tiny(60, 150), QUICK.but(epochs=8, learning_rate=0.05, patience=2)
    test = split_of(graph, 1).test
    honest, *others = (embeddings(method, relabelled(graph, test, shift), recipe) for shift in range(3))
    unreported = ("validation", "alignment", "uniformity", "effective_rank", "epochs", "recipe")
    for other in others:
        assert_equal(honest, other)
        assert [getattr(honest[2], name) for name in unreported] == [getattr(other[2], name) for name in unreported]
    assert sum(each[2].strict for each in (honest, *others)) == pytest.approx(100)
    if not method.supervised:
        assert_equal(honest, embeddings(method, relabelled(graph, np.arange(60)), recipe))


@pytest.mark.parametrize("method", TAUGHT, **NAMED)
def test_a_supervised_method_learns_from_training_labels_and_stops_by_validation_labels(method, embeddings):
    graph = tiny(60, 150)
    split, recipe = split_of(graph, 1), QUICK.but(epochs=30, learning_rate=0.005, patience=2)
    honest = embeddings(method, graph, recipe)
    for nodes in (split.train, split.validation):
        others = [embeddings(method, relabelled(graph, nodes, shift), recipe)[0] for shift in (1, 2)]
        assert not all(torch.equal(honest[0], other) for other in others)
    endless = recipe.but(patience=0)
    assert_equal(embeddings(method, graph, endless), embeddings(method, relabelled(graph, split.validation), endless))


def test_a_supervised_method_needs_validation_nodes_of_a_class_that_it_learns():
    labels = np.repeat([0, 1], [10, 20])
    split = Split(np.arange(5), np.arange(10, 15), np.arange(15, 30))
    graph = Graph.from_edges([0], [1], np.eye(30), undirected=True, labels=labels, split=split)
    with pytest.raises(DataError, match="no validation node of a class that a training node has"):
        run("GCN", graph, recipe=QUICK, device="cpu")


@pytest.mark.parametrize("method", TAUGHT, **NAMED)
def test_a_supervised_method_is_as_wide_as_there_are_classes_and_scored_by_its_own_predictions(method, embeddings):
    graph = tiny(60, 150)
    z, _, result = embeddings(method, graph, QUICK)
    test = split_of(graph, 1).test
    assert z.shape == (60, 3)
    assert result.strict == result.paper == pytest.approx(100 * np.mean(z.argmax(1).numpy()[test] == graph.labels[test]))
    assert result.recipe == QUICK.but(dimension=3).to_dict()
    with pytest.raises(DataError, match="has no labels, which a supervised method needs"):
        learn(method, graph.without_labels(), 1, QUICK, cpu_engine())


# -- geometry --------------------------------------------------------------------------------------------------------------


def learned(method, graph, recipe, seed):
    engine, model = cpu_engine(), method.build(recipe)
    seen = graph.without_labels()
    _, device_graph = model.fit_inputs(engine.to_device(seen), engine)
    supervision = supervision_of(graph, seed, engine.device)[0] if method.supervised else None
    return engine, model, device_graph, fit(model, engine, device_graph, recipe, seed, supervision=supervision).parameters


@pytest.mark.parametrize("method", in_tiers(METHODS.values()))
def test_geometry_is_that_of_fresh_views_a_methods_own_where_it_has_twins_and_else_clnrs_embedded(method):
    graph, recipe = tiny(80, 200), QUICK.but(dimension=3, edge_drop=0.4, feature_mask=0.3, dropout=0.5)
    engine, model, device_graph, parameters = learned(method, graph, recipe, 2)
    nodes = torch.tensor(split_of(graph, 2).validation)
    views = fresh_views(method, recipe, parameters, engine, device_graph, 2, nodes)
    if method.encoder is NoEncoder:
        expected = [model.embed(parameters, engine, view) for view in model.augment(device_graph, 2, "measure", 0)]
    elif method.symmetric_views:
        expected = model.project(parameters, engine, model.augment(device_graph, 2, "measure", 0))[:2]
    else:
        expected = [model.embed(parameters, engine, view) for view in CLNR.build(recipe).augment(device_graph, 2, "measure", 0)]
    assert len(views) == 2
    for rows, wanted in zip(views, expected, strict=True):
        torch.testing.assert_close(rows, wanted[nodes], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(*views)
    u, v = (unit_rows(rows) for rows in views)
    result = run(method, graph, 2, recipe=recipe, device="cpu", precision="float32")
    assert result.alignment == geometry.alignment(u, v) > 0
    assert result.uniformity == pytest.approx((geometry.uniformity(u) + geometry.uniformity(v)) / 2)


# -- results ---------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_built_in_graph_is_hard_enough_to_tell_methods_apart():
    """Raw features, then the untrained encoder, then CLNR, each by a clear margin."""
    recipe = recipe_for(CLNR, "toy").but(epochs=12, probe_steps=300)
    how = {"recipe": recipe, "device": "cpu", "precision": "float32"}
    raw, untrained, clnr = (run(name, "toy", **how).strict for name in ("Raw", "Untrained", "CLNR"))
    assert raw + 8 < untrained
    assert untrained + 8 < clnr


def test_summary_is_what_the_seeds_say():
    runs = [run(CLNR, tiny(60, 150), seed, recipe=QUICK, device="cpu") for seed in (2, 0, 1)]
    told = Summary.of(runs).to_dict()
    values = [result.strict for result in sorted(runs, key=lambda result: result.seed)]
    assert told["seeds"] == 3
    assert told["strict"] == {"mean": statistics.fmean(values), "std": pytest.approx(np.std(values)), "runs": values}
    assert told["alignment"] == pytest.approx(np.mean([result.alignment for result in runs]))
    assert told["peak_memory_bytes"] == max(result.peak_memory_bytes for result in runs)
    assert Summary.of(runs[:1]).to_dict()["strict"]["std"] == 0


def test_epochs_are_those_that_were_trained():
    graph = tiny(60, 150)
    assert run(CLNR, graph, recipe=QUICK, device="cpu").epochs == 4
    stopped = run(CLNR, graph, recipe=QUICK.but(epochs=300, learning_rate=0.1, patience=2), device="cpu")
    assert 2 < stopped.epochs < 300
    assert stopped.recipe["epochs"] == 300


def test_a_recipe_is_that_of_the_data_set_and_a_graph_of_ones_own_has_the_usual_one():
    assert recipe_for(CLNR, "citeseer").layers == 1
    assert recipe_for(CLNR, tiny()) == recipe_for(CLNR, tiny().named("photo")) == Recipe()
    assert recipe_for(CLNR, load("toy")) == recipe_for(CLNR, "toy")


@pytest.mark.full
def test_cora_reaches_what_the_paper_says(real_data):
    result = run(CLNR, load("cora", real_data), 0, device="cpu")
    assert result.strict > 82.5
    assert result.paper >= result.strict


def test_many_seeds_are_refused_at_once_not_at_the_first_run():
    wrong = [{"seeds": [0, -1]}, {"seeds": [2, 5, 2]}, {"device": "banana"}, {"precision": "banana"}, {"recipe": "banana"}]
    for each in (*wrong, {"seeds": 3}, {"dataset": Graph.from_edges([0], [1], np.eye(20))}):
        with pytest.raises(ClnrError):
            runs(**{"method": CLNR, "dataset": "toy", **each})


def test_noise_is_each_seeds_own_also_side_by_side(monkeypatch):
    noisy, how = QUICK.but(edge_noise=0.5), {"device": "cpu", "precision": "float32"}
    alone = [measures(run(CLNR, tiny(60, 150), seed, recipe=noisy, **how)) for seed in (0, 1)]
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 2)
    together = runs(CLNR, tiny(60, 150), [0, 1], recipe=noisy, **how)
    np.testing.assert_allclose([measures(each) for each in together], alone, rtol=1e-4)
    assert alone[1] != measures(run(CLNR, tiny(60, 150), 1, recipe=QUICK, **how))


def test_sampled_steps_repeat_learn_from_noise_and_are_measured_as_others_are():
    """The moments of all nodes are those of what is measured, and all edges those of what is embedded."""
    graph, sampled = tiny(60, 150), QUICK.but(sampled_nodes=20, moments="sampled", max_neighbors=2, edge_noise=0.5)
    result = run(CLNR, graph, 2, recipe=sampled, device="cpu", precision="float32")
    assert measures(result) == measures(run(CLNR, graph, 2, recipe=sampled, device="cpu", precision="float32"))
    engine = cpu_engine()
    fitted = fit(CLNR.build(sampled), engine, engine.to_device(with_noise(graph, 0.5, 2)), sampled, 2)
    again = CLNR.build(sampled).embed(fitted.parameters, engine, View(engine.to_device(graph)))
    assert torch.equal(learn(CLNR, graph, 2, sampled, engine).z, again)
    nodes, plain = torch.tensor(split_of(graph, 2).validation), sampled.but(moments="all", max_neighbors=0)
    views = fresh_views(CLNR, plain, fitted.parameters, engine, engine.to_device(graph), 2, nodes)
    assert result.alignment == geometry.alignment(*(unit_rows(rows) for rows in views))


def test_where_memory_is_short_fewer_seeds_are_trained_side_by_side(monkeypatch):
    module = importlib.import_module("clnr.experiments.learn")
    asked, whole = [], module.fit_all

    def fit_all(model, recipe, starts, *more):
        asked.append([start.seed for start in starts])
        if len(starts) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. More of it")
        return whole(model, recipe, starts, *more)

    monkeypatch.setattr(module, "fit_all", fit_all)
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 8)
    quick = recipe_for(CLNR, "toy").but(epochs=1, hidden=8, dimension=4, probe_steps=2)
    made = list(runs(CLNR, "toy", range(5), recipe=quick, device="cpu"))
    assert [run.seed for run in made] == [0, 1, 2, 3, 4]
    assert asked == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4]]
    monkeypatch.setattr(module, "fit_all", lambda model, recipe, starts, *more: fit_all(model, recipe, starts * 3, *more))
    with pytest.raises(OutOfMemory, match="out of memory"):
        list(runs(CLNR, "toy", [0], recipe=quick, device="cpu"))


@pytest.mark.parametrize(("asked", "expected"), [(None, [3, 3, 3, 1]), (2, [2] * 4), (9, [3, 3, 3, 1])])
def test_no_more_side_by_side_than_asked_for(monkeypatch, asked, expected):
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 3)
    made = runs(CLNR, tiny(), range(4), recipe=QUICK, device="cpu", parallel_seeds=asked)
    assert [each.parallel_seeds for each in made] == expected


@pytest.mark.gpu
def test_cpu_and_gpu_tell_the_same_story(cuda):
    here, there = (run(CLNR, "toy", 0, device=device) for device in ("cpu", "cuda"))
    assert there.strict == pytest.approx(here.strict, abs=1.5)
    assert there.alignment == pytest.approx(here.alignment, rel=0.02)
    assert there.uniformity == pytest.approx(here.uniformity, rel=0.02)
    assert dataclasses.replace(there, strict=0).device == "cuda"

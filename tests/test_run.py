from __future__ import annotations

import dataclasses
import statistics

import numpy as np
import pytest
import torch

from clnr import CLNR, Graph, Recipe, Summary, embed, geometry, load, recipe_for, run
from clnr.engine import cpu
from clnr.errors import DataError, RecipeError, TrainingError
from clnr.methods import METHODS, RAW
from clnr.objectives import NTXent, unit_rows
from clnr.run import fresh_views
from clnr.train import fit
from tests.conftest import tiny

QUICK = Recipe(hidden=16, dimension=8, epochs=4, probe_steps=30)
MEASURES = ("strict", "paper", "validation", "alignment", "uniformity", "effective_rank")


def measures(result):
    return [getattr(result, name) for name in MEASURES]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_same_seed_same_bits_whatever_ran_between(method):
    graph = tiny(60, 150)
    first = measures(run(method, graph, 5, recipe=QUICK, device="cpu"))
    run(CLNR, tiny(seed=2), 6, recipe=QUICK, device="cpu")
    torch.rand(3)
    assert measures(run(method, graph, 5, recipe=QUICK, device="cpu")) == first


def test_a_name_is_as_good_as_the_thing():
    by_name = run("clnr", "Embedded", 1, recipe=QUICK, device="cpu")
    assert measures(by_name) == measures(run(CLNR, load("embedded"), 1, recipe=QUICK, device="cpu"))
    assert (by_name.method, by_name.dataset, by_name.seed) == ("CLNR", "embedded", 1)
    assert by_name.recipe == QUICK.to_dict()
    assert by_name.content == load("embedded").digest


def test_geometry_is_that_of_fresh_views_of_the_validation_nodes():
    graph = load("embedded")
    result = run(CLNR, graph, 2, recipe=QUICK, device="cpu")
    engine, model = cpu(), CLNR.build(QUICK)
    placed = engine.place(graph)
    parameters = fit(model, engine, placed, QUICK, 2).parameters
    u, v = (unit_rows(rows[torch.tensor(graph.split.validation)]) for rows in fresh_views(model, parameters, engine, placed, 2))
    assert result.alignment == geometry.alignment(u, v) > 0
    assert result.uniformity == pytest.approx((geometry.uniformity(u) + geometry.uniformity(v)) / 2)


def test_the_embedded_graph_is_hard_enough_to_tell_methods_apart():
    """Raw features, then the untrained encoder, then CLNR, each by a clear margin."""
    raw, untrained, clnr = (run(name, "embedded", 0, device="cpu").strict for name in ("Raw", "Untrained", "CLNR"))
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


def test_nothing_trained_takes_no_epochs():
    result = run(RAW, tiny(60, 150), recipe=QUICK, device="cpu")
    assert result.epoch_ms is None
    assert result.effective_rank > 1


def test_bad_arguments():
    bare = Graph.from_edges([0], [1], np.eye(20))
    with pytest.raises(DataError, match="no labels"):
        run(CLNR, bare)
    for seed in (-1, 0.5, "0", 2**63):
        with pytest.raises(RecipeError, match="seed must be a whole number from 0"):
            run(CLNR, "embedded", seed)


def test_embed_gives_what_run_evaluates_and_needs_no_labels():
    graph = tiny(60, 150)
    z = embed(CLNR, graph, 3, recipe=QUICK, device="cpu")
    assert z.shape == (60, 8)
    assert z.dtype == np.float32
    assert geometry.effective_rank(torch.tensor(z)) == run(CLNR, graph, np.int64(3), recipe=QUICK, device="cpu").effective_rank
    np.testing.assert_array_equal(z, embed(CLNR, graph.without_labels(), 3, recipe=QUICK, device="cpu"))


@dataclasses.dataclass(frozen=True)
class Peeks(NTXent):
    """An objective that would like to see labels."""

    def __call__(self, parameters, views, moment):
        assert moment.placed.graph.labels is None
        assert moment.placed.graph.split is None
        return super().__call__(parameters, views, moment)


def test_learning_is_shown_no_labels():
    assert run(CLNR.but("Peeks", "", objective=Peeks), tiny(60, 150), recipe=QUICK, device="cpu").strict > 0


def test_an_embedding_that_is_not_finite_is_not_scored():
    recipe = Recipe(layers=64, hidden=64, dimension=64, learning_rate=1.0, epochs=1, probe_steps=5)
    with pytest.raises(TrainingError, match=r"embedding is not finite after 1 epochs; recipe: .*layers=64"):
        run(CLNR, "embedded", recipe=recipe, device="cpu")


def test_the_shelfs_recipe_can_be_varied():
    assert recipe_for("clnr", "Cora").but(epochs=7) == dataclasses.replace(recipe_for(CLNR, "cora"), epochs=7)
    assert recipe_for(CLNR, "citeseer").layers == 1


def test_cora_reaches_what_the_paper_says(real_data):
    result = run(CLNR, load("cora", real_data), 0, device="cpu")
    assert result.strict > 82.5
    assert result.paper >= result.strict


@pytest.mark.gpu
def test_cpu_and_gpu_tell_the_same_story(cuda):
    here, there = (run(CLNR, "embedded", 0, device=device) for device in ("cpu", "cuda"))
    assert there.strict == pytest.approx(here.strict, abs=1.5)
    assert there.alignment == pytest.approx(here.alignment, rel=0.02)
    assert there.uniformity == pytest.approx(here.uniformity, rel=0.02)
    assert dataclasses.replace(there, strict=0).device == "cuda"

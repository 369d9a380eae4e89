"""Scores of an embedding and of the baselines beside it."""

from __future__ import annotations

import dataclasses
import weakref

import numpy as np
import pytest
import torch
from benchmarks._fit_graph import fit_graph

from clnr import Recipe, evaluation
from clnr.datasets.splits import split_of
from clnr.embedding import baselines
from clnr.embedding import embed as embed_module
from clnr.embedding.defaults import default_recipe
from clnr.embedding.rows.whole import Whole
from clnr.embedding.scoring.scores import Truth, cosines_of, scored
from clnr.engine import cpu_engine, unit_rows
from clnr.errors import TrainingError
from clnr.evaluation import accuracy_error, auc_error, link_cosines, logistic_probe, predictions, score_cosines
from clnr.graph.csr import CSR, median_weight
from clnr.methods import CLNR, CLNR_MIX, RAW, SUPERVISED_GCN, UNTRAINED
from tests.conftest import tiny

SMALL = Recipe(hidden=16, dimension=8, epochs=3)
BESIDE = (RAW, UNTRAINED)
GRAPH = tiny(120, 400)


def fitted(graph=GRAPH, method=CLNR, **more):
    return fit_graph(graph, method, SMALL, 0, cpu_engine(), **{"baselines": BESIDE, **more})


@pytest.mark.parametrize("sparse", [False, True])
def test_raw_features_are_scored_by_the_same_edges_and_nodes(sparse):
    graph = tiny(120, 400, sparse=sparse)
    result = fitted(graph)
    dense = torch.tensor(graph.features.toarray() if sparse else graph.features)
    held, split = evaluation.hold_out(graph, 0.05, 0), split_of(graph, 0)
    links = score_cosines(link_cosines(unit_rows(dense), held))
    probe = logistic_probe(graph.features, graph.labels, split, 0)
    raw = result.baselines["Raw"]
    assert raw["link_auc"] == pytest.approx(links["auc"])
    assert (raw["strict_accuracy"], raw["validation_accuracy"]) == (probe.scores["accuracy"], probe.validation)
    own = logistic_probe(result.z, graph.labels, split, 0)
    assert result.scores["strict_accuracy"] == own.scores["accuracy"]
    assert raw["strict_accuracy_error"] == pytest.approx(accuracy_error(own.correct, probe.correct))


def test_the_graph_of_the_training_is_not_kept_while_the_whole_is_embedded(monkeypatch):
    seen, kept = [], []
    train, embed = embed_module.train, Whole.embed

    def noted(rows, *arguments):
        seen.append(weakref.ref(rows.device_graph))
        return train(rows, *arguments)

    def asked(*arguments):
        kept.append(seen[0]() is not None)
        return embed(*arguments)

    monkeypatch.setattr(embed_module, "train", noted)
    monkeypatch.setattr(Whole, "embed", asked)
    fitted(method=CLNR_MIX, baselines=())
    assert kept == [False]


def test_a_baseline_has_the_scores_that_it_has_as_a_method():
    beside = fitted().baselines["Untrained"]
    alone = fit_graph(GRAPH, UNTRAINED, default_recipe(UNTRAINED, GRAPH)[0].but(dimension=8), 0, cpu_engine())
    for name in ("link_auc", "link_average_precision", "strict_accuracy", "validation_accuracy"):
        assert beside[name] == alone.scores[name]


def test_errors_are_those_of_the_differences():
    held = evaluation.hold_out(GRAPH, 0.2, 0)
    random = torch.Generator().manual_seed(0)
    rows = [torch.randn(120, 5, generator=random) for _ in range(2)]
    first, second = (scored(cosines_of(each, held)) for each in rows)
    assert first.errors(second) == {"link_auc_error": auc_error(*(link_cosines(unit_rows(each), held) for each in rows))}


def test_nothing_is_scored_beside_it_unless_asked_or_without_anything_to_score_by():
    assert fitted(baselines=()).baselines == {}
    assert fitted(hold_out=0, evaluate=False).baselines == {}
    by_labels = {"strict_accuracy", "strict_macro_f1", "validation_accuracy", "strict_accuracy_error"}
    assert fitted(hold_out=0).baselines["Raw"].keys() == by_labels
    assert fitted(method=UNTRAINED).baselines.keys() == {"Raw"}
    links = {"link_auc", "link_average_precision", "link_auc_error"}
    assert fitted(evaluate=False).baselines["Untrained"].keys() == links


def test_a_classifier_needs_no_probe():
    result = fitted(method=SUPERVISED_GCN)
    right = predictions(torch.tensor(result.z), torch.tensor(GRAPH.labels), split_of(GRAPH, 0))
    assert result.scores["strict_accuracy"] == pytest.approx(right.strict)
    assert result.scores["validation_accuracy"] == pytest.approx(right.validation)
    assert result.baselines.keys() == {"Raw", "Untrained"}


@pytest.mark.parametrize("bound", ["MOST_NODES", "MOST_EDGES"])
def test_on_a_huge_graph_baselines_are_left_out_and_that_is_said(bound, monkeypatch):
    monkeypatch.setattr(baselines, bound, 50)
    result = fitted()
    assert result.baselines == {}
    assert any(line.startswith("baselines were not scored: the graph has more than ") for line in result.warnings)


def test_a_baseline_that_fails_does_not_lose_the_embedding(monkeypatch):
    train = baselines.train

    def failing(rows, graph, method, *rest):
        if method == UNTRAINED:
            raise TrainingError("it does not work here")
        return train(rows, graph, method, *rest)

    monkeypatch.setattr(baselines, "train", failing)
    result = fitted()
    assert result.baselines.keys() == {"Raw"}
    assert "Untrained was not scored: it does not work here" in result.warnings


def test_the_accuracy_of_features_that_are_too_wide_is_left_out(monkeypatch):
    monkeypatch.setattr(Truth, "is_quick", lambda self, rows: False)
    result = fitted()
    assert "strict_accuracy" not in result.baselines["Raw"]
    assert "strict_accuracy" in result.baselines["Untrained"]
    assert "the accuracy of raw features was not measured: 12 columns take too long" in result.warnings


def test_labels_of_one_class_are_no_score():
    result = fitted(dataclasses.replace(GRAPH, labels=np.zeros(120, np.int64)))
    assert "strict_accuracy" not in result.scores
    assert "majority_accuracy" not in result.scores
    assert any(line == "no accuracy was measured: the training nodes are of one class" for line in result.warnings)


def test_a_probe_that_has_not_converged_is_a_warning(monkeypatch):
    monkeypatch.setattr(evaluation.logistic_regression, "MOST_ITERATIONS", 1)
    assert any(line.startswith("the linear probe has not converged") for line in fitted(baselines=()).warnings)


@pytest.mark.parametrize("hold_out", [0.05, 0])
def test_the_unit_of_weights_has_no_effect(hold_out):
    """A power of two, so that no product is rounded. Without held-out edges, the vectors are those of training itself."""
    graph, times = tiny(weighted=True), np.float32(2.0**10)
    heavy = {way: CSR(*getattr(graph, way)[:2], getattr(graph, way).weight * times) for way in ("incoming", "outgoing")}
    found = [fitted(each, baselines=(), hold_out=hold_out) for each in (graph, dataclasses.replace(graph, **heavy))]
    np.testing.assert_array_equal(found[0].z, found[1].z)
    assert found[1].model.loop_weight == times * found[0].model.loop_weight


def test_a_node_itself_weighs_as_much_as_the_median_edge():
    graph = tiny(weighted=True)
    fitted = fit_graph(graph, CLNR, SMALL.but(layers=1), 0, cpu_engine()).model
    with_loops = graph.to_scipy().toarray().T + median_weight(graph.incoming.weight) * np.eye(graph.num_nodes)
    scale = with_loops.sum(1) ** -0.5
    weight, bias = (fitted.parameters[f"encoder.0.{name}"].numpy() for name in ("weight", "bias"))
    expected = scale[:, None] * with_loops * scale @ np.asarray(graph.features) @ weight + bias
    np.testing.assert_allclose(fitted.embed(graph, cpu_engine()), expected, rtol=1e-4, atol=1e-5)


def test_what_edges_weigh_is_told_where_they_tell_little():
    for measured in (True, False):
        recipe = SMALL.but(edge_weight="measured" if measured else "equal")
        result = fit_graph(GRAPH, CLNR_MIX, recipe, 0, cpu_engine())
        said = [line for line in result.warnings if line.startswith("edges are weakly informative here")]
        assert len(said) == measured
        for name, value in result.model.parameters.items():
            if measured and name.startswith("readout.block.") and name.endswith(".weight"):
                assert f"they weigh {value:.2f} in the vectors" in said[0]


def test_what_a_probe_takes_is_counted():
    split = split_of(GRAPH, 0)
    truth, count = Truth(GRAPH.labels, split, 0, "cpu"), len(split.train) * 3
    assert truth.is_quick(np.broadcast_to(np.float32(0), (120, int(5e8) // count)))
    assert not truth.is_quick(np.broadcast_to(np.float32(0), (120, int(5e8) // count + 1)))

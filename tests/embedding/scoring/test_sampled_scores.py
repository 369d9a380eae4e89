"""Scores from files are those of the same edges and nodes in memory; held-out edges are not seen in training."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from clnr import methods
from clnr.cli import app
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.job import embed_folder
from clnr.embedding.planning import file_plan
from clnr.embedding.scoring import sampled_scores, stored_links
from clnr.embedding.scoring.job_scores import score
from clnr.embedding.scoring.sampled_scores import file_samples, sampled_rows, training_files
from clnr.embedding.scoring.stored_links import hold_out_links
from clnr.embedding.store.artifact import load_metrics
from clnr.embedding.store.artifact_files import ArtifactFiles
from clnr.embedding.store.output_folder import write_report
from clnr.embedding.store.shards import Shards
from clnr.engine import choose
from clnr.errors import DataError
from clnr.evaluation import logistic_probe
from clnr.experiments.learn import learn
from clnr.graph.csr import to_csr, transpose
from clnr.graph.graph_folder import GraphFolder
from clnr.tables import ingest

pytest.importorskip("duckdb")
pytest.importorskip("numba")
pa = pytest.importorskip("pyarrow")

NODES = 400
CHANGES = {"epochs": 5, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled"}


def settings(**more):
    return Settings(methods.CLNR, choose("cpu"), recipe=CHANGES, **{"hold_out": 0.1, **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four classes whose nodes are linked to each other; every third node has a label, all have names."""
    path = tmp_path_factory.mktemp("graphs")
    rng = np.random.default_rng(5)
    source = rng.integers(0, NODES, 2400)
    target = (source + 4 * rng.integers(1, 40, 2400)) % NODES
    labels = [str(i % 4) if i % 3 == 0 else None for i in range(NODES)]
    x = (np.eye(4)[np.arange(NODES) % 4] @ rng.normal(size=(4, 6)) + rng.normal(size=(NODES, 6))).tolist()
    nodes = {"id": np.arange(NODES) * 7, "x": x, "name": [f"node {i}" for i in range(NODES)], "label": labels}
    return ingest(pa.table({"source": source * 7, "target": target * 7}), pa.table(nodes), out=path / "graph", label="label")


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    return embed_folder(folder, out, settings(), 2_000_000_000, layout="fast"), out


def pairs_of(graph):
    source, target, _ = graph.edges()
    return {(min(a, b), max(a, b)) for a, b in zip(source.tolist(), target.tolist(), strict=True)}


def without(graph, pairs):
    """A graph in memory without some pairs, one edge at a time."""
    out = {tuple(pair) for pair in pairs.T.tolist()}
    source, target, _ = graph.edges()
    left = np.array([(min(a, b), max(a, b)) not in out for a, b in zip(source.tolist(), target.tolist(), strict=True)])
    incoming = to_csr(target[left], source[left], None, graph.num_nodes)
    return dataclasses.replace(graph, incoming=incoming, outgoing=transpose(incoming))


@pytest.mark.parametrize("directed", [False, True])
def test_held_out_pairs_are_edges_and_the_others_are_not(folder, tmp_path, directed):
    if directed:
        rng = np.random.default_rng(2)
        edges = pa.table(dict(zip(("source", "target"), rng.integers(0, 60, (2, 300)), strict=True)))
        folder = ingest(edges, pa.table({"id": np.arange(60), "x": rng.normal(size=60)}), out=tmp_path / "g", directed=True)
    connected = pairs_of(folder.graph())
    held, apart, *_ = hold_out_links(folder, 0.1, 3)
    wanted = int(0.1 * (folder.num_edges if directed else folder.num_edges // 2))
    assert held.shape == apart.shape == (2, wanted)
    for pairs, are in ((held, True), (apart, False)):
        assert len({tuple(pair) for pair in pairs.T.tolist()}) == wanted
        assert all((tuple(pair) in connected) == are for pair in pairs.T.tolist())
    assert (apart[0] < apart[1]).all()
    again, other = (hold_out_links(folder, 0.1, seed)[0] for seed in (3, 4))
    assert np.array_equal(held, again)
    assert not np.array_equal(held, other)
    assert hold_out_links(folder, 1e-9, 0) is None


def test_at_most_so_many_pairs_are_held_out(folder, monkeypatch):
    monkeypatch.setattr(stored_links, "MOST_PAIRS", 17)
    assert hold_out_links(folder, 0.5, 0)[0].shape == (2, 17)


def test_few_non_edges_are_drawn_from_all_nodes(folder, monkeypatch):
    monkeypatch.setattr(stored_links, "MOST_PAIRS", 5)
    low = np.concatenate([hold_out_links(folder, 0.5, seed)[1].min(0) for seed in range(40)])
    # The smaller of two uniform draws is 1/3 on average, with a standard deviation of 0.24.
    assert low.mean() / folder.num_nodes == pytest.approx(1 / 3, abs=4 * 0.24 / len(low) ** 0.5)


def test_training_and_rows_are_those_of_the_graph_without_the_held_out_edges(folder, made):
    result, _ = made
    seen, links = training_files(folder, settings())
    whole = learn(methods.CLNR, without(folder.graph().with_median_loops(), links[0]), 0, result.model.recipe, choose("cpu"))
    assert torch.equal(torch.tensor(result.losses), whole.fitted.losses)
    some = np.array([5, 399, 0, 17, 200])
    for most_rows in (10_000, 1):
        rows = sampled_rows(result.model, choose("cpu"), seen, some, most_rows)
        np.testing.assert_allclose(rows, whole.z.numpy()[some], rtol=1e-4, atol=1e-5)


def test_scores_are_those_of_the_sample(folder, made):
    result, out = made
    seen, (held, apart, *_) = training_files(folder, settings())
    z = sampled_rows(result.model, choose("cpu"), seen, np.arange(NODES), 10_000)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    cosines = [(z[a] * z[b]).sum(1) for a, b in (held, apart)]
    truth = np.repeat([1, 0], held.shape[1])
    scores = result.scores
    assert scores["link_auc"] == pytest.approx(roc_auc_score(truth, np.concatenate(cosines)), abs=1e-6)
    assert scores["links_held_out"] == held.shape[1]
    x = folder.graph().features.toarray()
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    raw = roc_auc_score(truth, np.concatenate([(x[a] * x[b]).sum(1) for a, b in (held, apart)]))
    assert result.baselines["Raw"]["link_auc"] == pytest.approx(raw, abs=1e-6)
    assert {"link_auc_error", "strict_accuracy", "strict_accuracy_error"} <= result.baselines["Raw"].keys()
    # All labelled nodes fit in the sample, whose split is that of the graph in memory.
    graph, shards = folder.graph(), Shards.open(ArtifactFiles.open(out))
    from clnr.datasets import split_of

    probe = logistic_probe(shards.rows(np.arange(NODES)), graph.labels, split_of(graph, 0), 0)
    assert scores["strict_accuracy"] == pytest.approx(probe.strict)
    assert 1 < scores["effective_rank"] <= 8
    assert 0 <= scores["alignment"] <= 4
    losses, kept, warnings, baselines = load_metrics(ArtifactFiles.open(out))
    assert (losses, kept, warnings, baselines) == (result.losses, result.scores, result.warnings, result.baselines)
    assert any(f"scores from files are of samples: {held.shape[1]} held-out edges" in line for line in warnings)
    assert any(f"{len(graph.labels[graph.labels >= 0])} of {NODES // 3 + 1} labelled nodes" in line for line in warnings)


def test_a_sample_of_labels_does_not_depend_on_how_they_are_read(folder, monkeypatch):
    monkeypatch.setattr(sampled_scores, "MOST_LABELLED", 40)
    nodes, labels, total = sampled_scores._labelled(folder, 1)
    assert (len(nodes), total) == (40, NODES // 3 + 1)
    assert np.array_equal(labels, folder.graph().labels[nodes])
    monkeypatch.setattr(sampled_scores, "_LABELS", 33)
    assert np.array_equal(sampled_scores._labelled(folder, 1)[0], nodes)


def scored(model, folder, chosen, read_vectors):
    """The scores of vectors, for which ``read_vectors`` stands."""
    seen, links = training_files(folder, chosen)
    samples = file_samples(model, chosen, seen, links, seen, read_vectors, 1000, 8, None, True)
    return score(samples, model, chosen)


def test_scores_near_chance_are_warned_of(tmp_path):
    rng = np.random.default_rng(0)
    edges = pa.table(dict(zip(("source", "target"), rng.integers(0, 300, (2, 900)), strict=True)))
    nodes = pa.table({"id": np.arange(300), "x": rng.normal(size=(300, 5)).tolist(), "label": ["a"] * 290 + ["b"] * 10})
    folder = ingest(edges, nodes, out=tmp_path / "graph", label="label")
    model = FittedModel(methods.UNTRAINED, 0, settings().recipe_for(folder)[0], {}, 5)
    chosen = Settings(methods.UNTRAINED, choose("cpu"), hold_out=0.1)
    model = dataclasses.replace(model, parameters=methods.UNTRAINED.build(model.recipe).init(5, 0))
    found = scored(model, folder, chosen, lambda nodes: rng.normal(size=(len(nodes), 8)).astype("f"))
    assert any("not above that of always guessing the commonest class" in line for line in found.warnings)
    bare = ingest(edges, None, out=tmp_path / "bare")
    model = FittedModel(
        methods.UNTRAINED, 0, model.recipe, methods.UNTRAINED.build(model.recipe).init(bare.num_features, 0), bare.num_features
    )
    found = scored(model, bare, chosen, lambda nodes: np.ones((len(nodes), 8), "f"))
    assert any("link scores may be a little too high" in line for line in found.warnings)
    assert any("the embedding has collapsed" in line for line in found.warnings)


def test_the_report_is_of_a_sample(folder, made, monkeypatch):
    _, out = made
    assert "node 17" in (out / "report.html").read_text(encoding="utf-8")
    monkeypatch.setattr(sampled_scores, "MEASURED", 50)
    text = write_report(out, layout="tsne").read_text(encoding="utf-8")
    assert '<meta name="layout" content="tsne">' in text
    assert f"the map shows 50 of {NODES} nodes, drawn at random" in text
    assert "scores from files are of samples" in text
    with pytest.raises(DataError, match="those that clnr ingest was told"):
        write_report(out, "name")
    (folder.path / "graph.json").rename(folder.path / "elsewhere")
    with pytest.raises(DataError, match="is not there, or was changed: it makes the report"):
        write_report(out)
    (folder.path / "elsewhere").rename(folder.path / "graph.json")


def test_the_command_line_shows_scores_and_writes_a_report(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(file_plan, "fits_memory", lambda *_: False)
    words = ["embed", "--graph", str(folder.path), "--method", "CLNR", "--device", "cpu", "--memory", "2 GB", "--quiet"]
    words += [word for key, value in CHANGES.items() for word in ("--set", f"{key}={value}")]
    shown = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "a")])
    assert "AUC of held-out edges" in shown.stdout
    assert "raw features" in shown.stdout
    assert "report.html" in shown.stdout
    out = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path / "b"), "--json", "--no-report", "--hold-out", "0", "--no-baselines"]
    )
    content = json.loads(out.stdout)
    assert "link_auc" not in content["scores"]
    assert content["baselines"] == {}
    assert not (tmp_path / "b" / "report.html").exists()
    assert GraphFolder.open(folder.path).labels is not None

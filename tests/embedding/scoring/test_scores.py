"""Scores from files are those of the same edges and nodes in memory; held-out edges are not seen in training."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import roc_auc_score

from clnr import methods
from clnr.datasets.splits import split_of
from clnr.embedding.fit_settings import Settings
from clnr.embedding.result.artifact import load_metrics
from clnr.embedding.result.artifact_files import ArtifactFiles
from clnr.embedding.result.shards import Shards
from clnr.embedding.rows.passes import Passes
from clnr.embedding.scoring import scores
from clnr.embedding.workspace import Workspace
from clnr.engine import choose
from clnr.engine.blocks import in_blocks
from clnr.errors import DataError
from clnr.evaluation import hold_out, logistic_probe, without_pairs
from clnr.experiments.learn import learn
from clnr.graph.csr import edge_keys
from clnr.graph.folder import open_graph
from clnr.tables import ingest
from tests.embedding.jobs import embed_folder

NODES = 400
CHANGES = {"epochs": 5, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled"}
SETTINGS = Settings(methods.CLNR, choose("cpu"), recipe=CHANGES, hold_out=0.1)


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
    edges, read = pa.table({"source": source * 7, "target": target * 7}), {"types": {"name": "text"}, "label": "label"}
    return ingest(edges, pa.table(nodes), out=path / "graph", **read)


@pytest.fixture(scope="module")
def made(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    return embed_folder(folder, out, SETTINGS, report=True), out


def test_an_edge_that_leads_out_of_a_graph_in_files_is_named(folder, tmp_path):
    path = shutil.copytree(folder.stored.path, tmp_path / "graph")
    columns = np.fromfile(path / "incoming.indices.bin", "<i4")
    columns[-1] = NODES
    columns.tofile(path / "incoming.indices.bin")
    with pytest.raises(DataError, match=f"row {NODES - 1} has column {NODES}, "):
        hold_out(open_graph(path), 0.1, 0)


def some_rows(folder, model, nodes, path, most_rows=10_000):
    """Vectors of some nodes, without the held-out edges."""
    seen = in_blocks(folder, 1.0, edge_keys(hold_out(folder, 0.1, 0).positives, NODES))
    return Passes(seen, SETTINGS, Workspace(path), most_rows).some(model, nodes).numpy()


def test_training_and_rows_are_those_of_the_graph_without_the_held_out_edges(folder, made, tmp_path):
    result, _ = made
    links = hold_out(folder, 0.1, 0)
    whole = learn(methods.CLNR, without_pairs(folder.in_memory(), links[0]), 0, result.model.recipe, choose("cpu"))
    assert torch.equal(torch.tensor(result.losses), whole.fitted.losses)
    some = np.array([5, 399, 0, 17, 200])
    for most_rows in (10_000, 1):
        rows = some_rows(folder, result.model, some, tmp_path, most_rows)
        np.testing.assert_allclose(rows, whole.z.numpy()[some], rtol=1e-4, atol=1e-5)


def test_scores_are_those_of_the_sample(folder, made, tmp_path):
    result, out = made
    held, apart, *_ = hold_out(folder, 0.1, 0)
    z = some_rows(folder, result.model, np.arange(NODES), tmp_path)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    cosines = [(z[a] * z[b]).sum(1) for a, b in (held, apart)]
    truth = np.repeat([1, 0], held.shape[1])
    found = result.scores
    assert found["link_auc"] == pytest.approx(roc_auc_score(truth, np.concatenate(cosines)), abs=1e-6)
    assert found["links_held_out"] == held.shape[1]
    x = folder.in_memory().features.toarray()
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    raw = roc_auc_score(truth, np.concatenate([(x[a] * x[b]).sum(1) for a, b in (held, apart)]))
    assert result.baselines["Raw"]["link_auc"] == pytest.approx(raw, abs=1e-6)
    assert {"link_auc_error", "strict_accuracy", "strict_accuracy_error"} <= result.baselines["Raw"].keys()
    # All labelled nodes fit in the sample, whose split is that of the graph in memory.
    graph, shards = folder.in_memory(), Shards(out)
    probe = logistic_probe(shards[:], graph.labels, split_of(graph, 0), 0)
    assert found["strict_accuracy"] == pytest.approx(probe.scores["accuracy"])
    assert 1 < found["effective_rank"] <= 8
    assert 0 <= found["alignment"] <= 4
    assert load_metrics(ArtifactFiles.open(out)) == (result.losses, result.scores, result.warnings, result.baselines)
    assert "from files, training-free baselines are not scored" in result.warnings
    assert "node 17" in (out / "report.html").read_text(encoding="utf-8")


def test_a_sample_of_labels_does_not_depend_on_how_they_are_read(folder, monkeypatch):
    monkeypatch.setattr(scores, "MOST_LABELLED", 40)
    nodes, labelled, total = scores.labelled_nodes(folder, 1)
    assert (len(nodes), total) == (40, NODES // 3 + 1)
    assert np.array_equal(labelled.labels, folder.in_memory().labels[nodes])
    monkeypatch.setattr(scores, "_BLOCK_LABELS", 33)
    for graph in (folder, folder.in_memory()):
        assert np.array_equal(scores.labelled_nodes(graph, 1).nodes, nodes)


def test_degrees_that_know_held_out_edges_are_warned_of(tmp_path):
    ends = np.random.default_rng(0).integers(0, 300, (2, 900))
    folder = ingest(pa.table(dict(zip(("source", "target"), ends, strict=True))), out=tmp_path / "graph")
    result = embed_folder(folder, tmp_path / "out", Settings(methods.RAW, choose("cpu"), hold_out=0.1))
    assert "link scores may be slightly too high" in "\n".join(result.warnings)

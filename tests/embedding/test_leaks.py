"""Where there is nothing to learn, no score may be above chance: neither edges nor labels leak into what is scored by them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr import Graph, NodeEmbedder, evaluation, read_tables
from clnr.embedding.planning import plan
from clnr.graph.folder import open_graph
from clnr.tables import ingest

CHANCE, FAR = 0.5, 0.08
SMALL = {"epochs": 3, "hidden": 16, "dimension": 16}
QUICK = {"dimension": 16, "walk_columns": 16}


def by_chance(nodes=300, edges=1500):
    """Edges, features and classes that have nothing to do with each other."""
    random = np.random.default_rng(0)
    ends, x = random.integers(0, nodes, (2, edges)), random.normal(size=(nodes, 20))
    ends = ends[:, ends[0] != ends[1]]
    return Graph.from_edges(*ends, x, undirected=True, labels=random.integers(0, 3, nodes))


@pytest.fixture(scope="module")
def fitted():
    return NodeEmbedder(effort="quick", hold_out=0.2, evaluate=True, device="cpu", threads=1).fit(by_chance())


def test_held_out_edges_of_a_random_graph_are_not_found(fitted):
    found = {name: each["link_auc"] for name, each in [("ours", fitted.scores_), *fitted.baselines_.items()]}
    assert len(found) > 3
    assert found == {name: pytest.approx(CHANCE, abs=FAR) for name in found}


def test_random_labels_of_test_nodes_are_not_found(fitted):
    assert fitted.scores_["strict_accuracy"] == pytest.approx(100 / 3, abs=10)


def test_each_seed_has_its_own_test_nodes():
    """What quick makes of all edges follows from no seed: only the split is another one."""
    accuracies = set()
    for seed in range(3):
        made = NodeEmbedder(effort="quick", recipe=QUICK, hold_out=0, seed=seed, evaluate=True, device="cpu").fit(by_chance())
        accuracies.add(made.scores_["strict_accuracy"])
    assert len(accuracies) > 1


def test_a_training_that_holds_edges_out_is_that_of_the_graph_without_them():
    source, target, _ = by_chance(nodes=60, edges=150).edges()
    nodes = pa.table({"id": range(60)})

    def embedder(**more):
        return NodeEmbedder("CLNR", recipe=SMALL, device="cpu", threads=1, **more)

    whole = read_tables(pa.table({"source": source, "target": target}), nodes)
    held = evaluation.hold_out(whole, 0.2, 0).positives
    gone = {*zip(*held.tolist(), strict=True), *zip(*held[::-1].tolist(), strict=True)}
    left = [pair for pair in zip(source.tolist(), target.tolist(), strict=True) if pair not in gone]
    ends = dict(zip(("source", "target"), map(list, zip(*left, strict=True)), strict=True))
    # Degrees, which are the features here, on the scale of the whole graph.
    rest = read_tables(pa.table(ends), nodes, encoder=whole.info.encoder)
    losses = embedder(hold_out=0).fit(rest).losses_
    assert embedder(hold_out=0.2).fit(whole).losses_ == pytest.approx(losses, rel=1e-5)
    assert embedder(hold_out=0).fit(whole).losses_ != pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize("files", [False, True], ids=["memory", "files"])
def test_where_held_out_edges_are_the_only_structure_their_score_is_chance(files, tmp_path, monkeypatch):
    """Nearly all edges are held out, and features have nothing to do with them; the vectors that are written see them."""
    pairs, x = np.arange(2400).reshape(2, -1), np.random.default_rng(0).normal(size=(2400, 6))
    tables = pa.table({"source": pairs[0], "target": pairs[1]}), pa.table({"id": np.arange(2400), "x": x.tolist()})
    graph = ingest(*tables, out=tmp_path / "graph").stored.path if files else read_tables(*tables)
    if files:
        monkeypatch.setattr(plan, "fits_memory", lambda *_: False)
    found = NodeEmbedder(hold_out=0.99, recipe=SMALL | QUICK, device="cpu", threads=1).fit(graph)
    held = evaluation.hold_out(open_graph(graph) if files else graph, 0.99, 0)
    assert (found.scores_["links_held_out"], held.positives.shape[1]) == (1188, 1188)
    assert found.scores_["link_auc"] == pytest.approx(CHANCE, abs=0.04)
    z = np.asarray(found.embedding_)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    linked, others = ((z[a] * z[b]).sum(1).mean() for a, b in held[:2])
    assert linked > others + 0.15

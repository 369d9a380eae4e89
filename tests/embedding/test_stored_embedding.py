"""NodeEmbedder on a graph folder that does not fit in memory: trained from files, its embedding read when asked for."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pyarrow as pa
import pytest

from clnr import NodeEmbedder
from clnr.embedding.planning import memory_bound, plan
from clnr.embedding.result.clusters import find_clusters
from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.shards import Shards
from clnr.embedding.rows import passes as rows
from clnr.errors import ClnrError, DataError, MethodError
from clnr.graph.folder import open_graph
from clnr.methods.model import Model
from clnr.tables import ingest

NODES = 300
RECIPE = {"epochs": 2, "hidden": 16, "sampled_nodes": 64, "moments": "sampled"}
OPTIONS = {"method": "CLNR", "recipe": RECIPE, "dimension": 8, "device": "cpu", "hold_out": 0.0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same graph twice, with text and with numbers as ids."""
    path, rng = tmp_path_factory.mktemp("graphs"), np.random.default_rng(1)
    source, target = rng.integers(0, NODES, (2, 1200))
    x = rng.normal(size=(NODES, 6)).tolist()
    made = {}
    for name, ids in (("text", np.array([f"n{i}" for i in range(NODES)])), ("numbers", np.arange(NODES) * 3)):
        nodes = {"id": ids, "x": x, "title": [f"the node {i}" for i in range(NODES)]}
        edges = pa.table({"source": ids[source], "target": ids[target]})
        made[name] = ingest(edges, pa.table(nodes), out=path / name, types={"title": "text"})
    return made


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory):
    """Nothing fits in memory, and blocks are small; the folder of temporary files."""
    temporary = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "fits_memory", lambda *_: False)
        patch.setattr(memory_bound, "_LEAST_BLOCK_ROWS", 60)
        patch.setattr(rows, "_MOST_NODES", 60)
        patch.setattr(rows, "BLOCK_STEP", 1)
        patch.setattr("tempfile.tempdir", str(temporary))
        yield temporary


@pytest.fixture(scope="module")
def fitted(folders, small):
    return {name: NodeEmbedder(**OPTIONS).fit(folder.stored.path) for name, folder in folders.items()}


def test_the_embedding_is_that_of_the_graph_in_memory(folders, fitted, monkeypatch):
    monkeypatch.setattr(plan, "fits_memory", lambda *_: True)
    for name, embedder in fitted.items():
        whole = NodeEmbedder(**OPTIONS).fit(folders[name].stored.path)
        z = np.asarray(embedder.embedding_)
        assert embedder.losses_ == pytest.approx(whole.losses_)
        np.testing.assert_allclose(z, whole.embedding_, rtol=1e-4, atol=1e-5)
        assert np.array_equal(np.asarray(embedder.ids_), whole.ids_)
        assert embedder.recipe_ == whole.recipe_
        assert embedder.n_features_in_ == whole.n_features_in_
        assert dict(embedder.similar(whole.ids_[7], 5)).keys() == dict(whole.similar(whole.ids_[7], 5)).keys()
        assert list(embedder.get_feature_names_out()) == list(whole.get_feature_names_out())


def test_rows_are_read_as_those_of_an_array(fitted):
    z = fitted["text"].embedding_
    all_rows = np.asarray(z)
    assert (z.shape, len(z), z.ndim, z.dtype) == ((NODES, 8), NODES, 2, np.float32)
    mask = np.arange(NODES) % 7 == 0
    for index in (
        *(5, np.int32(-7), slice(58, 63), slice(None, None, -50), [3, 299, -3], np.array([[5, -1], [0, 2]], np.int16)),
        *([], ..., mask, np.array([], int), (slice(2, 5), 1), (4, slice(2))),
    ):
        np.testing.assert_array_equal(z[index], all_rows[index])
    np.testing.assert_array_equal(np.concatenate(list(z.blocks())), all_rows)
    np.testing.assert_array_equal(np.stack(list(z)), all_rows)
    for outside in (NODES, -NODES - 1, [0, NODES], mask[1:]):
        with pytest.raises(IndexError):
            z[outside]
    ids = fitted["numbers"].ids_
    assert (ids[2], ids[[1, 0]].tolist(), len(ids)) == (6, [3, 0], NODES)


def test_to_read_a_few_rows_needs_no_array_of_all(tmp_path, monkeypatch):
    shards = Shards(tmp_path)
    vars(shards).update(shape=(10**15, 1), _starts=np.array([0, 10**15]))
    monkeypatch.setattr(Shards, "_block", lambda self, number: np.arange(10, dtype=np.float32)[:, None])
    assert (shards[5].tolist(), shards[7:9].tolist(), shards[[3, 1]].tolist()) == ([5], [[7], [8]], [[3], [1]])


def test_ids_of_any_type_are_found(fitted):
    text, numbers = fitted["text"], fitted["numbers"]
    assert text.similar("n7", 3)[0][0].startswith("n")
    assert numbers.similar(21, 3) == numbers.similar("21", 3)
    assert isinstance(numbers.similar(21, 3)[0][0], int)
    with pytest.raises(DataError, match=r"there is no node 'n999'; did you mean 'n99' \(the node 99\), 'n[12]99'"):
        text.similar("n999")
    with pytest.raises(DataError, match=r"there is no node '1'; did you mean '3' \(the node 1\)"):
        numbers.similar(1)
    assert len(text.similar("n7", 10_000)) == NODES - 1
    assert text.similar("The Node 7", 9, names=True) == [
        (node, cosine, f"the node {node.removeprefix('n')}") for node, cosine in text.similar("n7", 9)
    ]


def test_clusters_are_those_of_the_same_vectors_in_memory(tmp_path):
    rng = np.random.default_rng(2)
    ids = [f"n{i}" for i in range(NODES)]
    edges = pa.table({"source": ids, "target": [ids[i] for i in rng.permutation(NODES)]})
    trades = [["baker", "smith", "miner"][i] for i in rng.integers(0, 3, NODES)]
    nodes = pa.table({"id": ids, "trade": trades, "years": rng.normal(10, 3, NODES), "title": [f"the {i}" for i in ids]})
    folder = ingest(edges, nodes, out=tmp_path / "graph")
    embedder = NodeEmbedder(**OPTIONS).fit(folder.stored.path)
    assert isinstance(embedder.embedding_, Shards)
    for k in (None, 3):
        found = embedder.clusters(k)
        same = find_clusters(np.asarray(embedder.embedding_), Nodes(folder.in_memory()), k)
        np.testing.assert_array_equal(found.assignment, same.assignment)
        assert found.clusters == same.clusters
        assert found.silhouette == pytest.approx(same.silhouette)
    assert {trait.column for each in found.clusters for trait in each.traits} == {"trade", "years"}
    assert all(name == f"the {node}" for each in found.clusters for node, name in zip(each.typical, each.names, strict=True))
    embedder.save(tmp_path / "saved")
    # The graph is the result's own: that it was made of may go.
    shutil.rmtree(folder.stored.path)
    loaded = NodeEmbedder.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.clusters(3).assignment, found.assignment)
    assert loaded.similar("n3", 9, names=True) == embedder.similar("n3", 9, names=True)
    assert "column trade" in loaded.report(tmp_path / "r.html", name="trade").read_text(encoding="utf-8")


def test_it_is_saved_and_loaded(folders, fitted, tmp_path):
    embedder = fitted["text"]
    embedder.save(tmp_path / "saved", report=True)
    assert (tmp_path / "saved" / "report.html").is_file()
    with pytest.raises(ClnrError, match="exists already"):
        embedder.save(tmp_path / "saved")
    loaded = NodeEmbedder.load(tmp_path / "saved")
    np.testing.assert_array_equal(np.asarray(loaded.embedding_), np.asarray(embedder.embedding_))
    assert loaded.similar("n3", 4) == embedder.similar("n3", 4)
    assert loaded.losses_ == embedder.losses_
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.embedding_[:3], embedder.embedding_[:3])
    assert again.similar("n3", 4, names=True) == loaded.similar("n3", 4, names=True)
    with pytest.raises(ClnrError, match="cannot be pickled: save"):
        pickle.dumps(embedder)
    assert "the node 5" in embedder.report(tmp_path / "r.html").read_text(encoding="utf-8")


def test_other_graphs_are_embedded_with_it(folders, fitted, monkeypatch):
    embedder, path = fitted["text"], folders["text"].stored.path
    assert embedder.transform(path) is embedder.embedding_
    other = embedder.transform(folders["numbers"].stored.path)
    np.testing.assert_allclose(np.asarray(other), np.asarray(embedder.embedding_), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(plan, "fits_memory", lambda *_: True)
    small = embedder.transform(folders["numbers"].stored.path)
    assert isinstance(small, np.ndarray)
    np.testing.assert_allclose(small, np.asarray(other), rtol=1e-4, atol=1e-5)


def test_nodes_of_a_given_graph(folders):
    embedder = NodeEmbedder(**OPTIONS, graph=str(folders["text"].stored.path))
    found = embedder.fit_transform(["n5", "n299", "n5"])
    np.testing.assert_array_equal(found, embedder.embedding_[[5, 299, 5]])


def test_files_go_with_the_last_that_uses_them(folders, small):
    before = set(small.iterdir())
    z = NodeEmbedder(**OPTIONS).fit_transform(folders["text"].stored.path)
    assert len(set(small.iterdir()) - before) == 1
    assert z[0].shape == (8,)
    del z
    assert set(small.iterdir()) == before


@pytest.mark.full
def test_the_default_from_files_is_that_in_memory_unless_it_cannot_work(folders, monkeypatch):
    folder = open_graph(folders["text"].stored.path)
    default = NodeEmbedder(device="cpu", recipe=RECIPE, hold_out=0.0)
    assert "plan: CLNR-mix, " in str(default.plan(folder.stored.path))
    assert default.fit(folder.stored.path)._result.model.method.name == "CLNR-mix"
    assert default.embedding_.shape == (NODES, 128)
    monkeypatch.setattr(Model, "whole_graph_reason", lambda self, nodes: self.readout and "it is large")
    with pytest.raises(MethodError, match=r"CLNR-mix .*cannot work from files: it is large"):
        default.fit(folder.stored.path)

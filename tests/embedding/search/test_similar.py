from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from clnr.embedding.graph_sources import as_table_graph
from clnr.embedding.search.similar import similar_nodes
from clnr.embedding.store.artifact import load_result, name_nodes, save_names
from clnr.embedding.store.artifact_files import DIGESTS, GRAPH, METRICS, MODEL, RECIPE, VECTORS
from clnr.errors import DataError
from clnr.tables import read_tables
from clnr.tables.ingest_report import NODES, TABLES
from tests.conftest import tiny
from tests.damage import unseal
from tests.embedding.store.test_artifact import fitted, saved, tables


@pytest.fixture
def folder(tmp_path):
    return saved(fitted(table_graph=tables(tmp_path)), tmp_path)


def by_hand(folder, node, k):
    """The same from the whole folder, by NumPy in double precision."""
    result = load_result(folder)
    graph, z = result.table_graph.graph, result.z.astype(float)
    ids = graph.node_ids.tolist()
    i = [str(each) for each in ids].index(node)
    unit = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-30)
    cosine = unit @ unit[i]
    cosine[i] = -2
    order = np.argsort(-cosine, kind="stable")[:k]
    adjacency = graph.to_scipy().toarray()
    names = result.table_graph.names_of(order) or [""] * len(order)
    labels = np.full(len(ids), -1) if graph.labels is None else graph.labels
    return [
        (
            ids[j],
            pytest.approx(cosine[j], abs=1e-6),
            bool(adjacency[i, j] or adjacency[j, i]),
            name or None,
            None if labels[j] < 0 else result.table_graph.class_name(int(labels[j])),
        )
        for j, name in zip(order, names, strict=True)
    ]


@pytest.mark.parametrize("node", ["n0", "n7", "n19"])
def test_it_answers_as_the_whole_folder_does(node, folder):
    found = similar_nodes(folder, node, 6)
    assert found.nodes == by_hand(folder, node, 6)
    assert (found.has_names, found.label_column) == (False, "label")
    save_names(name_nodes(load_result(folder), "kind", folder), folder)
    named = similar_nodes(folder, node, 6)
    assert named.nodes == by_hand(folder, node, 6)
    assert named.has_names


HALF_LABELLED = replace(tiny(), labels=np.where(np.arange(40) % 2, tiny().labels, -1))


@pytest.mark.parametrize(
    "graph", [tiny(sparse=True, weighted=True), tiny(undirected=False), tiny().without_labels(), HALF_LABELLED]
)
def test_graphs_of_every_kind(graph, tmp_path):
    folder = saved(fitted(table_graph=as_table_graph(graph)), tmp_path)
    assert similar_nodes(folder, "3", 2).label_column == (None if graph.labels is None else "label")
    for node in ("0", "17", "39"):
        assert similar_nodes(folder, node, 39).nodes == by_hand(folder, node, 39)


def test_a_node_is_found_by_its_name(tmp_path):
    tables(tmp_path)
    titles = "".join(f"n{i},{i % 7},{['Brave', 'Calm', 'Deep'][i % 3]} River {i // 2}\n" for i in range(20))
    (tmp_path / "n.csv").write_text("id,x,title\n" + titles)
    folder = saved(fitted(table_graph=read_tables(tmp_path / "e.csv", tmp_path / "n.csv")), tmp_path)
    named = similar_nodes(folder, " CALM river 2 ", 4)
    assert named == similar_nodes(folder, "n4", 4)
    assert named.id == "n4"
    with pytest.raises(DataError, match=r"folder: there is no node 'Calm Rivver 2'; did you mean 'n4' \(Calm River 2\), "):
        similar_nodes(folder, "Calm Rivver 2")
    save_names(name_nodes(load_result(folder), "x", folder), folder)
    with pytest.raises(DataError, match="3 nodes are called '5'; use the id of one: 'n5', 'n12', 'n19'"):
        similar_nodes(folder, "5")


@pytest.mark.parametrize("name", [VECTORS, GRAPH, TABLES, NODES, DIGESTS])
def test_a_file_that_is_read_is_checked(name, folder):
    save_names(name_nodes(load_result(folder), "kind", folder), folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|digests\.json"):
        similar_nodes(folder, "n3")


def test_no_other_file_is_read(folder):
    right = similar_nodes(folder, "n3")
    for name in (MODEL, METRICS, NODES):
        (folder / name).unlink()
    (folder / RECIPE).write_text("form = nothing")
    assert similar_nodes(folder, "n3") == right


def test_without_digests_what_is_wrong_is_refused_as_well(folder):
    unseal(folder)
    arrays, text = safetensors.numpy.load_file(folder / GRAPH), (folder / TABLES).read_text()
    for name, value, message in (
        ("edges.nodes", 99, "column 99"),
        ("edges.start", 2**40, "indptr"),
        ("labels", 2**40, "labels must number"),
        ("labels", 7, r"label 7, but tables\.json lists 3 classes"),
        ("size", 3, "it has 3 nodes"),
    ):
        changed = arrays[name].copy()
        changed.reshape(-1)[0] = value
        safetensors.numpy.save_file(arrays | {name: changed}, folder / GRAPH)
        with pytest.raises(DataError, match=f"{GRAPH}: .*{message}"):
            similar_nodes(folder, "n3")
    safetensors.numpy.save_file(arrays, folder / GRAPH)
    info = json.loads(text)
    for changed, message in (
        (info | {"findings": info["findings"] | {"names": "none such"}}, "the column of names, 'none such', is not in nodes"),
        (info | {"form": 7}, "format is version 7"),
    ):
        (folder / TABLES).write_text(json.dumps(changed))
        with pytest.raises(DataError, match=message):
            similar_nodes(folder, "n3")


@pytest.mark.full
def test_torch_is_not_imported(folder):
    script = f"""
import sys
from pathlib import Path
from clnr.embedding.search.similar import similar_nodes
folder = Path({str(folder)!r})
print(len(similar_nodes(folder, "n1", 3).nodes), [name for name in ("torch", "duckdb", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3 []\n", "")

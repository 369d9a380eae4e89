from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.embedding.result.artifact import load_result, save_folder
from clnr.embedding.result.artifact_files import DIGESTS, GRAPH, GRAPH_FILE, METRICS, MODEL, RECIPE, VECTORS
from clnr.embedding.result.neighbors import similar_nodes
from clnr.errors import DataError
from clnr.graph.manifest import NODES, TABLES
from tests.command_line import run_script
from tests.conftest import tiny
from tests.damage import reseal, rewritten, seal
from tests.embedding.result.test_artifact import fitted, replaced, saved, tables


@pytest.fixture
def folder(tmp_path):
    return saved(fitted(graph=tables(tmp_path)), tmp_path)


def by_hand(folder, node, k):
    """The same from the whole folder, by NumPy in double precision."""
    result = load_result(folder)
    nodes, graph, z = result.nodes, result.graph, result.z.astype(float)
    ids = nodes.ids.tolist()
    i = [str(each) for each in ids].index(node)
    unit = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-30)
    cosine = unit @ unit[i]
    cosine[i] = -2
    order = np.argsort(-cosine, kind="stable")[:k]
    adjacency, names = graph.to_scipy().toarray(), nodes.names_of(order)
    labels = np.full(len(ids), -1) if graph.labels is None else graph.labels
    return [
        (
            ids[j],
            pytest.approx(cosine[j], abs=1e-6),
            bool(adjacency[i, j] or adjacency[j, i]),
            name or None,
            None if labels[j] < 0 else graph.info.class_name(int(labels[j])),
        )
        for j, name in zip(order, names, strict=True)
    ]


def test_it_answers_as_the_whole_folder_does_and_reads_no_other_file(folder):
    for node in ("n0", "n7", "n19"):
        found = similar_nodes(folder, node, 6)
        assert found.nodes == by_hand(folder, node, 6)
        assert (found.has_names, found.label_column) == (False, "label")
    with_kinds_as_names(folder)
    right = similar_nodes(folder, "n3", 6)
    assert right.nodes == by_hand(folder, "n3", 6)
    assert right.has_names
    for name in (MODEL, METRICS):
        (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
    (folder / RECIPE).write_text("form = nothing")
    assert similar_nodes(folder, "n3", 6) == right


def with_kinds_as_names(folder):
    replaced(folder / GRAPH / TABLES, '"names": null', '"names": "kind"')
    reseal(folder / GRAPH)
    seal(folder)


HALF_LABELLED = replace(tiny(), labels=np.where(np.arange(40) % 2, tiny().labels, -1))


@pytest.mark.parametrize("graph", [tiny(sparse=True, weighted=True), tiny(undirected=False), HALF_LABELLED])
def test_graphs_of_every_kind(graph, tmp_path):
    folder = saved(fitted(graph=graph), tmp_path)
    for node in ("0", "17", "39"):
        assert similar_nodes(folder, node, 39).nodes == by_hand(folder, node, 39)


@pytest.mark.parametrize("name", [VECTORS, GRAPH_FILE, DIGESTS])
def test_a_file_that_is_read_is_checked(name, folder):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=r"damaged|digests\.json"):
        similar_nodes(folder, "n3")


def test_a_node_table_is_read_only_for_names_and_checked(folder):
    right, path = similar_nodes(folder, "n3"), folder / GRAPH / NODES
    with_kinds_as_names(folder)
    kinds = pq.read_table(path)
    for columns, said in (
        (kinds.slice(1), "it has 19 rows for 20 nodes"),
        (kinds.drop_columns("kind"), "kind"),
        (kinds.set_column(2, "kind", pa.array([b"\xff\xfe"] * 20).view(pa.string())), "it cannot be read"),
    ):
        pq.write_table(columns, path)
        reseal(folder / GRAPH)
        seal(folder)
        with pytest.raises(DataError, match=f"{NODES}: .*{said}"):
            similar_nodes(folder, "n3")
    replaced(folder / GRAPH / TABLES, '"names": "kind"', '"names": null')
    reseal(folder / GRAPH)
    seal(folder)
    assert similar_nodes(folder, "n3") == right


def test_with_right_digests_what_is_wrong_is_refused_as_well(folder):
    rewritten(folder / GRAPH, lambda arrays: arrays["labels.values"].__setitem__(0, 2**40))
    seal(folder)
    with pytest.raises(DataError, match=rf"labels.values\.bin: it is damaged, or was changed: .*has label {2**40}"):
        similar_nodes(folder, "n1", 19)
    rewritten(folder / GRAPH, lambda arrays: arrays["incoming.indices"].__setitem__(slice(None), 99))
    seal(folder)
    with pytest.raises(DataError, match=r"incoming.indices\.bin: it is damaged, or was changed: row 1 has column 99"):
        similar_nodes(folder, "n1", 19)


def test_counts_that_do_not_fit_are_refused(folder, tmp_path):
    rewritten(folder / GRAPH, lambda arrays: None, classes=8)
    seal(folder)
    with pytest.raises(DataError, match=rf"{TABLES}: it lists 3 classes, and the graph has 8"):
        similar_nodes(folder, "n3")
    (tmp_path / "other").mkdir()
    save_folder(fitted(), tmp_path / "other")
    shutil.rmtree(folder / GRAPH)
    (tmp_path / "other" / GRAPH).rename(folder / GRAPH)
    seal(folder)
    with pytest.raises(DataError, match=rf"{GRAPH_FILE}: it has 40 nodes, but there are 20 vectors"):
        similar_nodes(folder, "n3")


@pytest.mark.full
def test_torch_is_not_imported(folder):
    script = f"""
import sys
from pathlib import Path
from clnr.embedding.result.neighbors import similar_nodes
folder = Path({str(folder)!r})
print(len(similar_nodes(folder, "n1", 3).nodes), [name for name in ("torch", "duckdb", "sklearn") if name in sys.modules])
"""
    assert run_script(script).stdout == "3 []\n"

"""A graph folder opens only if it is whole, and every damage is one line that names the file."""

from __future__ import annotations

import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from benchmarks._graph_folders import write_graph

from clnr.engine.blocks import in_blocks
from clnr.engine.cpu.csr_arrays import GraphRows
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph import folder as folders
from clnr.graph.folder import is_graph_folder, open_graph, verify
from clnr.graph.manifest import MANIFEST
from clnr.tables import ingest


@pytest.fixture
def folder(tmp_path):
    edges = pa.table({"source": ["a", "b", "ü"], "target": ["b", "ü", "d"], "weight": [1.0, 2.0, 0.5]})
    nodes = pa.table(
        {"id": ["a", "b", "ü", "d"], "kind": ["x", "y", None, "x"], "size": [1.0, 2.0, 3.0, 4.0], "label": [0, 1, 0, 1]}
    )
    ingest(edges, nodes, out=tmp_path / "graph", directed=True, label="label", types={"kind": "category"})
    return tmp_path / "graph"


def manifest(folder, change):
    content = json.loads((folder / MANIFEST).read_text())
    change(content)
    (folder / MANIFEST).write_text(json.dumps(content))


def test_a_folder_tells_its_sizes_without_reading_it(folder):
    graph = open_graph(folder)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (4, 3, 4, 2)
    assert graph.directed
    assert graph.sparse
    assert graph.features.dtype == np.float32
    assert graph.labels.tolist() == [0, 1, 0, 1]
    assert graph.ids[1:3].tolist() == graph.ids[np.array([1, 2])].tolist() == ["b", "ü"]
    assert (graph.ids[3], len(graph.ids)) == ("d", 4)
    assert is_graph_folder(folder)
    verify(folder)


def test_every_file_that_is_cut_longer_missing_or_changed_is_named(folder):
    names = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
    assert len(names) == 14
    for name in names:
        path = folder / name
        content = path.read_bytes()
        for damaged in (content[:-1], content + b"x"):
            path.write_bytes(damaged)
            with pytest.raises(DataError, match=f"{name}: it has .* bytes instead of .*: it is damaged, or was changed"):
                open_graph(folder)
        path.unlink()
        with pytest.raises(DataError, match=f"{name}: the file is missing"):
            open_graph(folder)
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(DataError, match=f"{name}: it is damaged, or was changed"):
            verify(folder)
        path.write_bytes(content)
    verify(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(form=2), "its format is version 2, and this clnr reads version 4"),
        (lambda content: content.update(nodes=5), "the array incoming.indptr"),
        (lambda content: content.update(nodes=-1), "-1 is not a whole number from 0 on"),
        (lambda content: content["files"].pop("features.indptr.bin"), "the array features.values"),
        (lambda content: content["files"].pop("outgoing.indptr.bin"), "the array outgoing.indices"),
        (lambda content: content.update(feature_type="object"), "unknown feature type 'object'"),
        (lambda content: content["files"].update({"../x": {"bytes": 0, "sha256": ""}}), "is not the name of a file"),
        (lambda content: content.update(classes=2**40), "1,099,511,627,776 classes are too many for 4 nodes"),
        (lambda content: content.update(digest=None), "digest must be text"),
        (lambda content: content.update(files=[]), "AttributeError"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(folder, change, said):
    manifest(folder, change)
    with pytest.raises(DataError) as caught:
        open_graph(folder)
    assert said in str(caught.value)
    assert MANIFEST in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_folders_are_no_graph_folders(tmp_path):
    with pytest.raises(DataError, match="there is no such folder"):
        open_graph(tmp_path / "none")
    with pytest.raises(DataError, match=r"it has no graph.json, so it is not a graph folder; clnr ingest writes one"):
        open_graph(tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(DataError, match=r"graph.json: it cannot be read, JSONDecodeError"):
        open_graph(tmp_path)
    assert not is_graph_folder(tmp_path)


@pytest.mark.parametrize("name", ["incoming.indptr", "outgoing.indptr", "features.indptr", "ids.offsets"])
def test_rows_that_do_not_end_with_the_last_entry_are_refused_at_opening(folder, name):
    values = np.fromfile(folder / f"{name}.bin", "<i8")
    said = rf"{name}\.bin: it is damaged, or was changed: it goes from {{}} to {{}} instead of from 0 to {values[-1]}"
    for damaged in (values * 0, values + 1, np.append(values[:-1], -1)):
        damaged.tofile(folder / f"{name}.bin")
        with pytest.raises(DataError, match=said.format(damaged[0], damaged[-1])):
            open_graph(folder)


@pytest.mark.parametrize(
    ("name", "place", "value", "row"),
    [
        ("incoming.indptr", 1, 4, "row 0 "),
        ("features.indptr", 2, -1, "row 1 "),
        ("ids.offsets", 1, 10**9, ""),
        ("labels.values", 2, 2**40, "row 2 "),
        ("labels.values", 3, -2, "row 3 "),
        ("features.values", 0, np.nan, "row 0 "),
        ("incoming.indices", 1, 9, "row 2 "),
        ("incoming.weight", 1, -1.0, "row 2 "),
    ],
)
def test_a_number_that_cannot_be_is_named_when_the_graph_is_loaded(folder, name, place, value, row):
    dtypes = {"indices": "<i4", "weight": "<f4", "features.values": "<f4"}
    dtype = dtypes.get(name, dtypes.get(name.partition(".")[2], "<i8"))
    values = np.fromfile(folder / f"{name}.bin", dtype)
    values[place] = value
    values.tofile(folder / f"{name}.bin")
    with pytest.raises(DataError, match=rf"^{folder}.*{name}.*{row}"):
        open_graph(folder).in_memory()


def test_dense_features_are_checked_and_do_not_stay_in_the_file(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    folder = write_graph(Graph.from_edges([0, 1, 2], [1, 2, 2], x), tmp_path / "graph").stored.path
    loaded = open_graph(folder).in_memory()
    np.where(x == 7, np.inf, x).astype("<f4").tofile(folder / "features.values.bin")
    with pytest.raises(DataError, match=r"features .* row 2,"):
        open_graph(folder).in_memory()
    np.testing.assert_array_equal(loaded.features, x)


def test_a_folder_that_is_replaced_while_it_is_opened_is_the_new_one(tmp_path, monkeypatch):
    old, new = (Graph.from_edges([0, 1], [1, 2], np.full((size, 2), size, np.float32)) for size in (3, 4))
    folder = write_graph(old, tmp_path / "graph")
    write_graph(new, tmp_path / "new")
    real = folders.map_array

    def replaced(*arguments):
        if (tmp_path / "new").is_dir():
            shutil.rmtree(tmp_path / "graph")
            (tmp_path / "new").rename(tmp_path / "graph")
        return real(*arguments)

    monkeypatch.setattr(folders, "map_array", replaced)
    assert open_graph(folder.stored.path).in_memory().digest == new.digest


@pytest.mark.parametrize("ids", [None, ["ü", "", "b c", "d"]])
@pytest.mark.parametrize("options", [{"undirected": True}, {"weight": [1.0, 2.0, 0.5], "labels": [0, 1, -1, 1]}])
def test_a_graph_in_memory_is_written_and_read_as_it_is(tmp_path, ids, options):
    x = np.eye(4, 3, dtype=np.float32)
    for features in (x, sp.csr_array(x)):
        graph = Graph.from_edges([0, 1, 2], [1, 2, 2], features, ids=ids, name="small", **options)
        folder = write_graph(graph, tmp_path / type(features).__name__)
        verify(folder.stored.path)
        assert folder.digest == folder.in_memory().digest == graph.digest
        assert list(folder.in_memory().node_ids) == folder.node_ids.tolist() == list(graph.node_ids)
        assert (folder.name, folder.num_classes, folder.sparse) == ("small", graph.num_classes, sp.issparse(features))


def test_a_folder_has_at_most_as_many_nodes_as_32_bits_number(folder, tmp_path, monkeypatch):
    manifest(folder, lambda content: content.update(nodes=2**31))
    with pytest.raises(DataError, match=r"graph.json: 2,147,483,648 nodes are too many: .* at most 2,147,483,647"):
        open_graph(folder)
    monkeypatch.setattr("clnr.graph.folder.MOST_NODES", 3)
    with pytest.raises(DataError, match=r"^4 nodes are too many: a graph folder has at most 3 "):
        ingest(pa.table({"source": [1, 2, 3], "target": [2, 3, 4]}), out=tmp_path / "large")
    assert not (tmp_path / "large").exists()


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="files with holes take their whole size")
def test_edges_beyond_32_bits_are_read(tmp_path):
    graph = Graph.from_edges([1, 2, 3, 3], [2, 1, 1, 2], np.eye(4, dtype=np.float32))
    folder = write_graph(graph, tmp_path / "graph").stored.path
    # The first node has so many edges, in a hole of the file; those of the others come after them.
    hole = 2**31 + 5
    indices = np.fromfile(folder / "incoming.indices.bin", "<i4")
    for way in ("incoming", "outgoing"):
        with (folder / f"{way}.indices.bin").open("wb") as file:
            file.seek(4 * hole)
            file.write(indices.tobytes())
        indptr = np.fromfile(folder / f"{way}.indptr.bin", "<i8")
        indptr[1:] += hole
        indptr.tofile(folder / f"{way}.indptr.bin")

    def grow(content):
        content["edges"] += hole
        for way in ("incoming", "outgoing"):
            content["files"][f"{way}.indices.bin"]["bytes"] = 4 * content["edges"]

    manifest(folder, grow)
    opened = open_graph(folder)
    assert opened.num_edges == hole + 4
    assert (opened.degrees[1], opened.neighbours(1)) == (3, {2, 3})
    rule = GraphRows(in_blocks(opened))
    counts, sums = rule.count(np.array([1, 2, 3]))
    assert counts.tolist() == sums.tolist() == [3, 3, 1]
    assert rule.fill(np.array([1, 2]), counts[:2]).columns.tolist() == [1, 2, 3, 1, 2, 3]

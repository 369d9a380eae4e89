"""Graphs of tables: what is read in memory and what is written as a folder are the same; nodes, labels, ids and names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clnr.errors import ClnrError, DataError
from clnr.graph.folder import verify
from clnr.tables import ingest, read_tables
from tests.tables.files import columns_of, dense, edge_weights, saved, written

EDGES = {"source": ["a", "b", "c", "d", "e"], "target": ["b", "c", "d", "e", "a"]}
NODES = {
    "id": ["a", "b", "c", "d", "e"],
    "name": ["Ann", "Bob", "Cy", "Dan", "Eve"],
    "age": ["31", "45", "", "60", "39"],
    "plan": ["free", "paid", "free", "trial", "paid"],
    "note": ["likes tea", "likes rice and tea", "", "rice", "no tea"],
    "team": ["x", "y", "x", "", "y"],
}
KINDS = {
    "edges": {("user", "bought", "item"): pa.table({"user_id": [1, 2, 2], "itemId": [1, 1, 3]})},
    "nodes": {"user": pa.table({"user": [1, 2], "age": [30, 50]}), "item": pa.table({"id": [1, 3], "price": [2.5, 4.0]})},
}


def typed(columns):
    return pa.table(columns)


CASES = {
    "edges alone": {"edges": typed(EDGES)},
    "numbers as ids": {"edges": pa.table({"a": [5, 7, 9], "b": [7, 9, 5]})},
    "nodes": {"edges": typed(EDGES), "nodes": typed(NODES), "label": "team"},
    "directed": {"edges": typed(EDGES), "nodes": typed(NODES), "directed": True},
    "chosen": {"edges": typed(EDGES), "nodes": typed(NODES), "features": ["age"], "types": {"age": "category"}},
    "kinds": KINDS,
    "a kind without a table": KINDS | {"nodes": {"user": KINDS["nodes"]["user"]}},
}


@pytest.mark.parametrize("case", CASES)
def test_a_folder_is_the_graph_in_memory(tmp_path, case):
    graph, folder = read_tables(**CASES[case]), ingest(**CASES[case], out=tmp_path / "g", memory="1 GB")
    verify(tmp_path / "g")
    again = folder.in_memory()
    assert folder.digest == graph.digest == again.digest
    assert again.ids.tolist() == graph.ids.tolist()
    assert again.info == graph.info
    assert (again.columns is None) == (graph.columns is None)
    if graph.columns is not None:
        assert again.columns.table().to_pydict() == graph.columns.table().to_pydict()
    assert (dense(again.features) == dense(graph.features)).all()


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet", "pandas", "arrow"])
def test_a_table_is_the_same_in_every_form(tmp_path, form):
    first = read_tables(written(tmp_path, "csv", EDGES, "e"), written(tmp_path, "csv", NODES), label="team")
    read = read_tables(written(tmp_path, form, EDGES, "e"), written(tmp_path, form, NODES), label="team")
    assert columns_of(read) == columns_of(first)
    assert edge_weights(read) == edge_weights(first)
    assert (dense(read.features) == dense(first.features)).all()
    assert read.labels.tolist() == [0, 1, 0, -1, 1]
    assert read.class_names == ("x", "y")
    assert read.info.names == "name"


def test_ids_of_text_are_text_and_of_typed_tables_numbers(tmp_path):
    text = read_tables(saved(tmp_path, "e.csv", "source,target\n10,9\n9,2\n"))
    assert text.ids.tolist() == ["2", "9", "10"]
    assert read_tables(pa.table({"source": [10, 9], "target": [9, 2]})).ids.tolist() == [2, 9, 10]
    mixed = read_tables(saved(tmp_path, "f.csv", "source,target\n1,2\n"), pa.table({"id": [1, 2], "x": [0.5, 1.5]}))
    assert mixed.ids.tolist() == ["1", "2"]


def test_ids_of_two_kinds_are_apart():
    graph = read_tables(**KINDS)
    assert graph.ids.tolist() == ["user:1", "user:2", "item:1", "item:3"]
    rows = graph.columns.table().to_pydict()
    assert rows["node_kind"] == ["user", "user", "item", "item"]
    assert rows["original_id"] == ["1", "2", "1", "3"]
    x = dense(graph.features)
    assert x[:, :2].tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    # Each column is scaled over the nodes of its kind, and is 0 for others.
    assert x[:, 2].tolist() == pytest.approx([-1, 1, 0, 0])
    assert x[:, 3].tolist() == pytest.approx([0, 0, -1, 1])


def test_nothing_is_left_of_what_failed(tmp_path):
    with pytest.raises(ClnrError):
        ingest(pa.table({"source": ["a"], "target": ["a"]}), out=tmp_path / "new" / "g", memory="1 GB")
    assert list(tmp_path.iterdir()) == []


def test_a_reserved_name_and_two_labels_are_refused():
    with pytest.raises(DataError, match="node_kind"):
        read_tables(KINDS["edges"], KINDS["nodes"] | {"user": pa.table({"user": [1, 2], "node_kind": ["a", "b"]})})
    both = {kind: table.append_column("team", pa.array(["x", "y"])) for kind, table in KINDS["nodes"].items()}
    with pytest.raises(DataError, match="team"):
        read_tables(KINDS["edges"], both, label="team")
    assert read_tables(KINDS["edges"], both, label="user.team").labels.tolist() == [0, 1, -1, -1]

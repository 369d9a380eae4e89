"""Columns of a node table that hold ids of other nodes."""

from __future__ import annotations

import shlex

import pytest

from clnr.tables import read_tables
from tests.tables.files import columns_of, written

COUNT = 40


def people(form="p{}", names=("person", "father", "mother")):
    """A binary tree: each node's parents have about half of its number."""
    key, *parents = names
    columns = {key: [form.format(i) for i in range(1, COUNT + 1)]}
    for step, parent in enumerate(parents):
        columns[parent] = [form.format(i // 2 + step) if i > 3 else None for i in range(1, COUNT + 1)]
    return columns | {"born": [1900 + i % 17 for i in range(COUNT)], "town": ["a", "b", "c", "d"] * (COUNT // 4)}


def edges_of(columns):
    key, *parents = list(columns)[:-2]
    pairs = {frozenset((a, b)) for parent in parents for a, b in zip(columns[key], columns[parent], strict=True) if b}
    return {pair for pair in pairs if len(pair) == 2}


def linked(graph):
    source, target, _ = graph.edges()
    ids = [str(each) for each in graph.ids.tolist()]
    return {frozenset((ids[a], ids[b])) for a, b in zip(source.tolist(), target.tolist(), strict=True)}


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ("p{}", ("person", "father", "mother")),
        ("{}", ("taxid", "parent_taxid")),
        ("{}", ("Employee ID", "Manager ID")),
        ("1{:03}", ("id", "parent")),
    ],
)
def test_they_are_edges_and_no_features(tmp_path, form, ids, names):
    columns = people(ids, names)
    nodes = written(tmp_path, form, columns)
    edges = written(tmp_path, form, {"source": columns[names[0]][:20], "target": columns[names[0]][20:]}, "e")
    read = read_tables(edges, nodes)
    assert list(columns_of(read)) == ["born", "town"]
    (line,) = (line for line in read.ingest_report.remarks if "of other nodes" in line)
    assert all(f"'{name}'" in line for name in names[1:])
    if form != "arrow":
        query = shlex.split(line.partition("to read them as edges: ")[2])[1]
        again = read_tables(query, nodes)
        assert linked(again.graph) == edges_of(columns)
        assert not [line for line in again.ingest_report.remarks if "to read them as edges" in line]
        assert list(columns_of(again)) == ["born", "town"]

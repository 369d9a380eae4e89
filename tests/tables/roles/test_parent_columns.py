"""Columns of a node table that hold ids of other nodes."""

from __future__ import annotations

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

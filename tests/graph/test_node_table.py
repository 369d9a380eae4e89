"""The columns of nodes are the same rows from memory and from a file, of which no more is read than is asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.errors import DataError
from clnr.graph.node_table import NodeTable

TABLE = pa.table({"id": [f"n{i}" for i in range(10)], "age": [None, *range(9)]})


@pytest.fixture
def written(tmp_path):
    def write(table, nodes=10):
        pq.write_table(table, tmp_path / "nodes.parquet", row_group_size=3)
        return NodeTable(tmp_path / "nodes.parquet", nodes)

    return write


@pytest.mark.parametrize("nodes", [[], [4], [9, 0, 3, 3, 8], list(range(10))], ids=str)
def test_some_rows_of_a_file_are_those_of_memory_in_their_order(written, nodes):
    for columns in (None, ["age"], ["age", "id"]):
        expected = TABLE.select(columns or ["id", "age"]).take(pa.array(nodes, pa.int64()))
        for table in (NodeTable(TABLE, 10), written(TABLE)):
            assert table.take(np.array(nodes, np.int64), columns).equals(expected)


def test_a_column_comes_in_parts_and_all_of_it_in_one(written):
    file = written(TABLE)
    assert [len(part) for part in file.parts("id")] == [3, 3, 3, 1]
    assert pa.chunked_array([chunk for part in file.parts("id") for chunk in part.chunks]).equals(TABLE["id"])
    assert file.table().equals(TABLE)
    assert file.schema.equals(TABLE.schema)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLE.slice(1), "9 rows for 10 nodes"),
        (TABLE.drop_columns("age"), "age"),
        (TABLE.append_column("age", TABLE["age"]), "same name"),
        (TABLE.append_column("more", [[[1]] * 10]), "more"),
        (TABLE.append_column("more", [pa.array([0] * 10, pa.timestamp("s", "Mars/Olympus"))]), "more"),
        (TABLE.set_column(1, "age", [pa.array([b"\xff"] * 10).view(pa.string())]), "cannot be read"),
    ],
    ids=["rows", "lacks", "twice", "nested", "zone", "no text"],
)
def test_a_damaged_file_is_refused_by_its_name(written, table, said):
    with pytest.raises(DataError, match=rf"nodes\.parquet: .*{said}"):
        written(table).take(np.arange(10), ["age"])


def test_a_column_that_memory_lacks_is_refused():
    with pytest.raises(DataError, match="title"):
        NodeTable(TABLE, 10).take(np.arange(3), ["title"])

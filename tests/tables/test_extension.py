"""A graph that is extended: its nodes come first, new rows and weights replace old ones, columns are read as before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from tests.tables.files import dense, edge_weights

EDGES = pa.table({"source": ["a", "b", "c"], "target": ["b", "c", "d"], "weight": [1.0, 2.0, 3.0]})
NODES = pa.table(
    {"id": ["a", "b", "c", "d"], "age": [20.0, 30.0, 40.0, 60.0], "plan": ["x", "y", "x", "y"], "team": ["r", "s", "r", None]}
)


@pytest.fixture(scope="module")
def first():
    return read_tables(EDGES, NODES, label="team")


def test_new_rows_and_weights_replace_old_ones(first):
    edges = pa.table({"source": ["e", "b"], "target": ["a", "c"], "weight": [4.0, 9.0]})
    nodes = pa.table({"id": ["e", "b"], "age": [40.0, 20.0], "plan": ["y", "new"], "team": ["t", "r"]})
    graph = read_tables(edges, nodes, base=first, label="team")
    assert graph.ids.tolist() == ["a", "b", "c", "d", "e"]
    weights = {"ab": 1, "bc": 9, "cd": 3, "ae": 4}
    assert {f"{a}{b}": w for (a, b), w in edge_weights(graph).items() if a < b} == weights
    x, old = dense(graph.features), dense(first.features)
    assert np.allclose(x[[0, 2, 3]], old[[0, 2, 3]])
    assert np.allclose(x[1], [old[0, 0], 0, 0])
    assert np.allclose(x[4], [old[2, 0], *old[1, 1:]])
    assert graph.labels.tolist() == [0, 0, 0, -1, 2]
    assert graph.class_names == ("r", "s", "t")
    assert graph.columns.table()["age"].to_pylist() == [20, 20, 40, 60, 40]


def test_edges_alone_bring_nodes_without_values(first):
    graph = read_tables(pa.table({"source": ["f"], "target": ["a"], "weight": [1.0]}), base=first)
    assert graph.ids.tolist() == ["a", "b", "c", "d", "f"]
    assert np.allclose(dense(graph.features)[:4], dense(first.features))
    assert not dense(graph.features)[4].any()
    assert graph.labels.tolist() == [0, 1, 0, -1, -1]


def test_nodes_alone_change_no_edge(first):
    graph = read_tables(None, pa.table({"id": ["z"], "age": [30.0], "plan": ["x"]}), base=first)
    assert edge_weights(graph) == edge_weights(first)
    assert graph.num_nodes == 5


def test_a_missing_column_is_told_and_counts_as_missing(first):
    graph = read_tables(None, pa.table({"id": ["z"], "age": [30.0]}), base=first)
    assert not dense(graph.features)[4, 1:].any()
    assert any("'plan'" in note for note in graph.info.notes)


def test_an_encoder_reads_other_tables_alike(first):
    alone = read_tables(EDGES, NODES, encoder=first.info.encoder)
    assert np.allclose(dense(alone.features), dense(first.features))
    half = NODES.slice(0, 2)
    links = pa.table({"source": ["a"], "target": ["b"]})
    assert np.allclose(dense(read_tables(links, half, encoder=first.info.encoder).features), dense(first.features)[:2])


def test_kinds_are_extended_by_kinds():
    users = pa.table({"user": [1, 2], "age": [30, 50]})
    bought = {("user", "bought", "item"): pa.table({"user": [1, 2], "item": [1, 3]})}
    first = read_tables(bought, {"user": users})
    more = {("user", "bought", "item"): pa.table({"user": [2, 4], "item": [7, 1]})}
    graph = read_tables(more, {"user": pa.table({"user": [4], "age": [40]})}, base=first)
    assert graph.ids.tolist() == ["user:1", "user:2", "item:1", "item:3", "user:4", "item:7"]
    assert graph.info.edge_kinds == first.info.edge_kinds
    with pytest.raises(DataError, match="user, item"):
        read_tables(pa.table({"source": [1], "target": [2]}), base=first)


def test_what_contradicts_the_earlier_graph_is_refused(first):
    link = pa.table({"source": ["a"], "target": ["d"]})
    for more, said in (
        ({"directed": True}, "undirected"),
        ({"features": ["age"]}, "features"),
        ({"types": {"age": "category"}}, "as"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables(link, base=first, **more)

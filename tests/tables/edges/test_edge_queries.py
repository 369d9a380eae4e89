"""Queries that count repeated edges, and that keep ends of edges that are not in the node table: they run as printed."""

from __future__ import annotations

import re
import shlex

import pytest

from clnr.embedding.planning.graph_facts import table_warnings
from clnr.tables import read_tables
from tests.tables.files import edge_weights, written

AGAIN = [("a", "b"), ("b", "a"), ("a", "b"), ("c", "a")]


def query_in(read, option):
    """The query of a line that names one; None if no line does."""
    line = next((line for line in table_warnings(read) if f"--{option} 'SELECT" in line or f'--{option} "SELECT' in line), "")
    return shlex.split(re.split(rf"--{option} (?=['\"]SELECT)", line)[1])[0] if line else None


def table(tmp_path, form, names, rows, name="e"):
    return written(tmp_path, form, dict(zip(names, zip(*rows, strict=True), strict=True)), name)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("names", [("source", "target"), ("Source IP", "order"), ("b", "a")])
@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_rows_that_repeat_an_edge_are_counted_as_its_weight(tmp_path, form, names, directed):
    named = {"source": names[0], "target": names[1], "directed": directed}
    query = query_in(read_tables(table(tmp_path, form, names, AGAIN), **named), "edges")
    graph = read_tables(edges=query, **named).graph
    one_way = {("a", "b"): 2, ("b", "a"): 1, ("c", "a"): 1}
    both = {("a", "b"): 3, ("c", "a"): 1}
    assert edge_weights(graph) == (one_way if directed else both | {(b, a): w for (a, b), w in both.items()})


@pytest.mark.parametrize(("key", "source"), [("IP-Adresse", "Source IP"), ("id", "source"), ("order", "id")])
@pytest.mark.parametrize(
    ("of_edges", "of_nodes"), [("csv", "csv"), ("csv", "parquet"), ("parquet", "csv"), ("parquet", "parquet")]
)
def test_ends_that_are_not_in_the_node_table_are_kept_by_a_query(tmp_path, of_edges, of_nodes, key, source):
    rows = [(1, 2), (1, 3), (3, "x" if of_edges == "csv" else 4), (2, 1)]
    edges = table(tmp_path, of_edges, (source, "target"), rows)
    nodes = table(tmp_path, of_nodes, (key, "age"), [(1, 30), (2, 40)], "n")
    named = {"source": source, "target": "target", "id": key}
    read = read_tables(edges, nodes, **named)
    assert "warning: left out: 2 edges of 4 (50%)" in table_warnings(read)[0]
    kept = read_tables(edges, nodes=query_in(read, "nodes"), **named)
    assert not kept.ingest_report.dangling
    assert list(map(str, kept.graph.ids.tolist())) == ["1", "2", "3", str(rows[2][1])]
    assert kept.columns["age"].to_pylist() == ([*(["30", "40"] if of_nodes == "csv" else [30, 40]), None, None])

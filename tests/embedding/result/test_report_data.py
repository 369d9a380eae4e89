from __future__ import annotations

import datetime
from dataclasses import replace
from html import escape

import numpy as np
import pyarrow as pa
import pytest
from benchmarks._fit_graph import fit_graph

from clnr.embedding.result import report_data as module
from clnr.embedding.result.report_data import report_data
from clnr.engine import cpu_engine
from clnr.errors import UnknownName
from clnr.graph import Graph
from clnr.graph.node_table import NodeTable
from clnr.graph.table_info import TableInfo
from clnr.methods import METHODS, RAW, UNTRAINED
from clnr.methods.recipe import Recipe
from clnr.report import render_html
from clnr.tables import read_tables
from tests.conftest import tiny

SMALL = Recipe(hidden=16, dimension=8, epochs=3, probe_steps=20)


def fitted(graph=None, columns=None, method="Raw"):
    graph = tiny() if graph is None else graph
    if columns is not None:
        graph = replace(graph, columns=NodeTable(columns, graph.num_nodes))
    return fit_graph(graph, METHODS[method], SMALL, 0, cpu_engine())


def test_it_tells_of_graph_scores_and_recipe():
    result = fitted(method="CLNR")
    made = report_data(result, "mine")
    sections = {name: dict(facts) for name, facts in made.sections}
    assert sections["The graph"]["nodes"] == "40"
    assert sections["All scores"]["effective rank: dimensions in use"] == f"{result.scores['effective_rank']:.4g}"
    assert sections["Training"]["epochs"] == "3"
    # The paper's probe is not told of.
    assert not any(key.startswith("probe") for facts in sections.values() for key in facts)
    assert len(sections["All scores"]) == len(result.scores)
    assert made.curves == [("loss", result.losses)]
    assert render_html(made).startswith("<!doctype html>")


WORDS = ["red", "green", "blue"]
COLUMNS = {
    "name": [f"Node {i}" for i in range(60)],
    "motto": [f"all of {WORDS[i % 3]} and {i * i} more" for i in range(60)],
    "age": [i % 7 for i in range(60)],
    "hue": [WORDS[i % 3] for i in range(60)],
    "rare": [f"v{i % 25}" for i in range(60)],
    "member": ["yes", "no"] * 30,
}


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        (["name", "motto", "age", "rare", "hue", "member"], "hue"),
        (["member", "age"], "member"),
        (["name", "motto", "age", "rare"], "cluster"),
        (["motto"], "cluster"),
        ([], "cluster"),
    ],
)
def test_the_map_opens_with_few_values_or_clusters_and_never_with_text_or_ids(columns, first):
    edges = pa.table({"source": range(60), "target": [i * 7 % 60 for i in range(60)]})
    nodes = pa.table({"id": range(60)} | {name: COLUMNS[name] for name in columns}) if columns else None
    result = fitted(read_tables(edges, nodes), method="Raw" if columns else "SVD")
    made = report_data(result, "mine")
    assert made.columns[0].name == first
    assert "cluster" in [each.name for each in made.columns[:2]]
    # A column that is named is the first, whatever it holds.
    for name in ("cluster", *(["motto"] if "motto" in columns else [])):
        assert report_data(result, "mine", colour=name).columns[0].name == name
    with pytest.raises(UnknownName, match="unknown column 'clusters'; did you mean 'cluster'"):
        report_data(result, "mine", colour="clusters")


def test_values_that_hardly_any_two_nodes_share_are_no_colour():
    edges = pa.table({"source": range(10), "target": [(i + 1) % 10 for i in range(10)]})
    trades = ["baker", "miller", "farmer", "baker", "innkeeper", "smith", "miner", "smith", "trader", "carter"]
    made = report_data(fitted(read_tables(edges, pa.table({"id": range(10), "trade": trades}))), "mine")
    assert made.columns[0].name == "cluster"


def test_clusters_are_a_column_and_a_list():
    result = fitted()
    made = report_data(result, "mine")
    column = next(each for each in made.columns if each.name == "cluster")
    np.testing.assert_array_equal(column.values, result.clusters.assignment)
    assert len(made.clusters) == len(result.clusters.clusters) == len(column.names)
    html = render_html(made)
    for cluster, (title, lines) in zip(result.clusters.clusters, made.clusters, strict=True):
        assert title == cluster.title
        assert lines[0].startswith(f"{np.sum(column.values == cluster.number)} nodes, typical: {cluster.typical[0]}; ")
        assert all(escape(line) in html for line in (title, *lines))


def test_baselines_stand_beside_it_above_the_sections():
    assert report_data(fitted(), "mine").comparison is None
    result = fit_graph(tiny(), METHODS["CLNR"], SMALL, 1, cpu_engine(), baselines=(RAW, UNTRAINED))
    made = report_data(result, "mine")
    names = [row[0].split(":")[0] for row in made.comparison.rows]
    assert (names[0], names[-1], {*names} - {"Untrained"}) == ("raw features", "CLNR", {"raw features", "CLNR"})
    assert made.comparison.rows[-1][1] == f"{result.scores['link_auc']:.3f}"
    html = render_html(made)
    assert html.index(escape(made.comparison.note)) < html.index("The graph")


def test_neighbours_are_those_of_the_graph_both_ways():
    graph = Graph.from_edges([0, 1, 1, 4], [1, 2, 1, 0], np.eye(5))
    made = report_data(fitted(graph), "mine")
    rows = [made.links[made.start[i] : made.start[i + 1]].tolist() for i in range(5)]
    assert rows == [[1, 4], [0, 2], [1], [], [0]]


def test_columns_become_numbers_or_categories_and_ids_are_left_out():
    columns = pa.table(
        {
            "id": list(range(40)),
            "age": [None, float("inf"), *range(38)],
            "kind": ["a", None, "b"] * 13 + ["a"],
            "flag": [True, False] * 20,
            "cluster": [f"mine {i % 4}" for i in range(40)],
            "text": ["1.5", "", " 2 ", None] * 10,
            "when": [datetime.date(2026, 1, 1 + i % 3) for i in range(40)],
            "many": [[1.0, 2.0]] * 40,
            "label": ["x"] * 40,
        }
    )
    made = {column.name: column for column in report_data(fitted(columns=columns), "mine").columns}
    assert list(made) == ["label", "clusters", "age", "kind", "flag", "cluster", "text", "when", "number of edges"]
    assert np.isnan(made["age"].values[:2]).all()
    assert made["age"].values[5] == 3
    assert [made["kind"].names[c] if c >= 0 else None for c in made["kind"].values[:3]] == ["a", None, "b"]
    np.testing.assert_array_equal(made["text"].values[:4], np.array([1.5, np.nan, 2, np.nan], np.float32))
    assert made["when"].names == ("2026-01-01", "2026-01-02", "2026-01-03")
    assert made["flag"].names == ("true", "false")
    assert made["label"].names == ("0", "1", "2")
    assert made["number of edges"].values.sum() == tiny().num_edges


def test_names_are_told_and_their_column_is_no_colour():
    columns = pa.table({"title": [f" Node {i}" if i % 2 else None for i in range(40)], "kind": ["a", "b"] * 20})
    made = report_data(fitted(replace(tiny(), info=TableInfo(names="title")), columns), "mine")
    assert list(made.names) == [f"Node {i}" if i % 2 else "" for i in range(40)]
    assert [column.name for column in made.columns] == ["label", "cluster", "kind", "number of edges"]
    assert dict(made.sections[0][1])["names"] == "column title"
    assert report_data(fitted(columns=columns), "mine").names == ()


def test_long_values_are_cut_and_numbers_beyond_float32_are_missing():
    long, large = ["x" * 300, "short"] * 20, [1e300, -1e300, 3e38, float("inf"), None, *[1.0] * 35]
    made = {each.name: each for each in report_data(fitted(columns=pa.table({"long": long, "large": large})), "mine").columns}
    assert [len(each) for each in made["long"].names] == [200, 5]
    expected = np.array([*[np.nan] * 2, 3e38, *[np.nan] * 2, *[1.0] * 35], np.float32)
    np.testing.assert_array_equal(made["large"].values, expected)


def test_of_very_many_nodes_some_are_shown_and_it_is_said(monkeypatch):
    monkeypatch.setattr(module, "_MOST_NODES", 10)
    made = report_data(fitted(), "mine")
    assert len(made.ids) == len(set(made.ids)) == len(made.points) == 10
    assert any("a random sample: 10 of 40 nodes" in line for line in made.notices)
    assert made.near.max() < 10
    assert len(made.start) == 11
    render_html(made)


def test_a_method_that_learns_by_labels_has_one_too():
    render_html(report_data(fitted(method="GCN"), "mine"))

"""Two tables as a graph: what goes in comes out."""

from __future__ import annotations

import numpy as np
import pytest

from clnr.errors import DataError
from clnr.tables import FeatureEncoder, read_tables
from tests.tables.files import EDGES, columns_of, edge_weights, saved


def pairs(graph):
    """Edges by the ids of their nodes, whatever their direction."""
    return {tuple(sorted(pair, key=str)) for pair in edge_weights(graph)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", EDGES),
        ("e.csv", "\ufeff" + EDGES),
        ("e.csv", EDGES.replace("\n", "\r\n")),
        ("e.csv", "SRC,Dst\na,b\nb,c\n"),
        ("e.csv", "when,target,source\n1,b,a\n2,c,b\n"),
        ("e.csv", "source, target\na, b\nb , c\n"),
        ("e.tsv", "source\ttarget\na\tb\nb\tc\n"),
        ("e.txt", "a b\nb c\n"),
        ("e.edges", "a\tb\nb\tc"),
        ("e.csv", "source;target\na;b\nb;c\n"),
    ],
)
def test_text_of_many_forms(tmp_path, name, text):
    found = read_tables(saved(tmp_path, name, text))
    assert pairs(found.graph) == {("a", "b"), ("b", "c")}
    assert found.ingest_report.rows == 2


def test_a_column_that_is_asked_for_is_not_taken_for_another_by_its_name(tmp_path):
    edges = saved(tmp_path, "e.csv", "w,to,from,weight\na,7,b,9\nb,7,c,9\n")
    assert pairs(read_tables(edges, source="from", target="w").graph) == {("a", "b"), ("b", "c")}
    assert read_tables(edges, target="from", source="w", weight="to").graph.edges()[2].tolist() == [7] * 4
    people = saved(tmp_path, "n.csv", "label,id,y\na,1,p\nb,2,q\nc,2,p\n")
    found = read_tables(edges, people, source="from", target="w", id="label")
    assert found.graph.ids.tolist() == ["a", "b", "c"]
    assert (found.classes, list(columns_of(found))) == (("p", "q"), ["id"])


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["-7", "0", "999999999999999999"], int),
        (["007", "7", "8"], str),
        (["1", "two", "3"], str),
        (["1.5", "2", "3"], str),
        (["99999999999999999999999", "1", "2"], str),
    ],
)
def test_ids_of_any_kind_are_kept_and_given_back(tmp_path, ids, kind):
    a, b, c = ids
    found = read_tables(saved(tmp_path, "e.csv", f"source,target\n{a},{b}\n{b},{c}\n"))
    assert sorted(found.graph.ids.tolist(), key=str) == sorted(map(kind, ids), key=str)


def test_duplicates_loops_and_both_directions_are_counted_and_cleaned(tmp_path):
    text = "source,target,weight\na,b,1\na,b,2\nb,a,4\nb,b,9\nb,c,5\nc,b,5\nc,a,0\n"
    found = read_tables(saved(tmp_path, "e.csv", text))
    # Rows of one direction add up, 1 + 2; of the two directions the larger counts.
    assert edge_weights(found.graph) == {("a", "b"): 4, ("b", "a"): 4, ("b", "c"): 5, ("c", "b"): 5}
    told = found.ingest_report
    assert (told.rows, told.loops, told.duplicates, told.dangling) == (7, 1, 1, 0)
    said = "merged: 2 rows repeating an edge in reverse; the graph is undirected, and the larger weight counts"
    assert f"{tmp_path / 'e.csv'}: {said}" in told.remarks
    assert "1 edges have weight 0" in " ".join(told.remarks)
    directed = read_tables(tmp_path / "e.csv", directed=True)
    assert edge_weights(directed.graph) == {("a", "b"): 3, ("b", "a"): 4, ("b", "c"): 5, ("c", "b"): 5}
    assert directed.ingest_report.duplicates == 1


def test_labels_are_classes_and_no_feature(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x,label,day\na,1,10,1\nb,2,9,2\nc,3,,3\n")
    found = read_tables(saved(tmp_path, "e.csv", EDGES), nodes, ignore=["Day"])
    assert found.classes == ("9", "10")
    assert found.graph.labels.tolist() == [1, 0, -1]
    assert list(columns_of(found)) == ["x"]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("id\na\nb\nc\n", "it has only ids, labels and times"),
        ("id,label\na,u\nb,v\nc,u\n", "it has only ids, labels and times"),
        ("id,x,y2\na,1,\nb,1,\nc,1,\n", "x: all its values are the same; y2: it is empty"),
        ("id,x\na,nan\nb,inf\nc,1e400\n", "x: it is empty"),
    ],
)
def test_nodes_without_a_feature_have_those_of_structure_and_that_is_said(tmp_path, nodes, why):
    edges, people = saved(tmp_path, "e.csv", EDGES), saved(tmp_path, "n.csv", nodes)
    found = read_tables(edges, people)
    said = "none of its columns can be a feature, so features come from the structure of the graph"
    assert found.ingest_report.remarks == (f"{people}: {said}: {why}",)
    assert np.array_equal(found.graph.features, read_tables(edges).graph.features)
    assert found.feature_encoder.dropped.keys() == set(found.columns.column_names) - {"id", "label"}
    assert found.columns["id"].to_pylist() == ["a", "b", "c"]
    again = read_tables(edges, people, feature_encoder=FeatureEncoder.from_json(found.feature_encoder.to_json()))
    assert np.array_equal(found.graph.features, again.graph.features)


def test_columns_of_nodes_are_kept_as_they_were(tmp_path):
    people = (
        "SELECT 'cab'[i + 1] AS id, i::HUGEINT AS big, i * 1.5::DOUBLE AS x, 'k' || i AS label, "
        "DATE '2026-01-01' + i::INT AS day, TIME '10:00' AS hour, i = 1 AS flag, [i] AS list, {'a': i} AS struct, "
        "'x'::BLOB AS blob, NULL AS nothing FROM range(3) r(i)"
    )
    found = read_tables(saved(tmp_path, "e.csv", EDGES), nodes=people)
    rows = found.columns.to_pydict()
    days = [str(day) for day in rows.pop("day")]
    assert days == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert rows == {
        "id": ["c", "a", "b"],
        "big": [0, 1, 2],
        "x": [0, 1.5, 3],
        "label": ["k0", "k1", "k2"],
        "hour": ["10:00:00"] * 3,
        "flag": [False, True, False],
        "struct.a": [0, 1, 2],
        "nothing": [None] * 3,
    }
    assert [found.classes[label] for label in found.graph.labels] == rows["label"]
    texts = read_tables(tmp_path / "e.csv", saved(tmp_path, "n.csv", "id,x, Y 2\nb, 1 ,q\na,,r\n"))
    assert texts.columns.to_pydict() == {"id": ["b", "a"], "x": [" 1 ", None], "Y 2": ["q", "r"]}


def test_edges_that_all_lead_nowhere_are_refused_with_how_ids_differ(tmp_path):
    edges, nodes = saved(tmp_path, "e.csv", "source,target\n7,8\n8,9\n"), saved(tmp_path, "n.csv", "id,x\n007,1\n008,2\n")
    with pytest.raises(
        DataError, match=r"e\.csv: no edge has an id of the node table: .*'7'.*'007' in 'id'; .*--source, --target, --id"
    ):
        read_tables(edges, nodes)


def test_a_named_index_of_pandas_is_a_column():
    pandas = pytest.importorskip("pandas")
    edges = pandas.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    nodes = pandas.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 3.5]}).set_index("id")
    assert read_tables(edges, nodes).graph.ids.tolist() == ["a", "b", "c"]


def test_a_graph_from_tables_is_shown_in_a_line(tmp_path):
    found = read_tables(saved(tmp_path, "e.csv", EDGES), saved(tmp_path, "n.csv", "id,x\na,1\nb,2\nc,4\n"))
    assert repr(found) == "TableGraph(Graph(graph: 3 nodes, 4 edges, 1 dense features), 2 columns of nodes)"

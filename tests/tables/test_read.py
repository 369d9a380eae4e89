"""Two tables as a graph: what goes in comes out."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pytest

from clnr.errors import DataError
from clnr.tables import FeatureEncoder, read_tables
from tests.fuzz import examples
from tests.tables.files import EDGES, saved

pytest.importorskip("duckdb")
hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")


def pairs(graph, both=False):
    """Edges by the ids of their nodes."""
    source, target, _ = graph.edges()
    ids = graph.ids.tolist()
    found = [(ids[a], ids[b]) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    return set(found) if both else {tuple(sorted(pair, key=str)) for pair in found}


def weights(graph):
    source, target, weight = graph.edges()
    ids = graph.ids.tolist()
    return {(ids[a], ids[b]): w for a, b, w in zip(source.tolist(), target.tolist(), weight.tolist(), strict=True)}


# -- forms ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", EDGES),
        ("e.csv", "\ufeff" + EDGES),
        ("e.csv", EDGES.replace("\n", "\r\n")),
        ("e.csv", "# a comment\n" + EDGES),
        ("e.csv", '"source","target"\n"a","b"\n"b","c"\n'),
        ("e.csv", "SRC,Dst\na,b\nb,c\n"),
        ("e.csv", "when,target,source\n1,b,a\n2,c,b\n"),
        ("e.csv", "source, target\na, b\nb , c\n"),
        ("e.tsv", "source\ttarget\na\tb\nb\tc\n"),
        ("e.txt", "a b\nb c\n"),
        ("e.edges", "a\tb\nb\tc"),
        ("e.csv", "source;target\na;b\nb;c\n"),
        ("e.csv.gz", gzip.compress(EDGES.encode(), mtime=0)),
        ("e.jsonl", '{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n'),
        ("e.json", '[{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]'),
    ],
)
def test_text_of_many_forms(tmp_path, name, text):
    found = read_tables(saved(tmp_path, name, text))
    assert pairs(found.graph) == {("a", "b"), ("b", "c")}
    assert found.ingest_report.rows == 2


def test_parquet_globs_queries_and_frames(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
    pq.write_table(frame.slice(0, 1), tmp_path / "part-1.parquet")
    pq.write_table(frame.slice(1, 1), tmp_path / "part-2.parquet")
    for given in (
        {"edges": tmp_path / "part-*.parquet"},
        {"edges": frame},
        {"edges_query": f"SELECT * FROM '{tmp_path}/part-*.parquet'"},
        {"edges_query": "FROM (VALUES ('a', 'b'), ('b', 'c')) t(source, target)"},
    ):
        assert pairs(read_tables(**given).graph) == {("a", "b"), ("b", "c")}


def test_columns_can_be_named(tmp_path):
    path = saved(tmp_path, "e.csv", "who,whom,how much\na,b,2\nb,c,3\n")
    found = read_tables(path, source="who", target="WHOM", weight="how much")
    assert weights(found.graph)["a", "b"] == 2
    assert found.ingest_report.remarks == ()


def test_a_column_that_is_asked_for_is_not_taken_for_another_by_its_name(tmp_path):
    edges = saved(tmp_path, "e.csv", "w,to,from,weight\na,7,b,9\nb,7,c,9\n")
    assert pairs(read_tables(edges, source="from", target="w").graph) == {("a", "b"), ("b", "c")}
    assert read_tables(edges, target="from", source="w", weight="to").graph.edges()[2].tolist() == [7] * 4
    people = saved(tmp_path, "n.csv", "label,id,y\na,1,p\nb,2,q\nc,2,p\n")
    found = read_tables(edges, people, source="from", target="w", id="label")
    assert found.graph.ids.tolist() == ["a", "b", "c"]
    assert (found.classes, [part.column for part in found.feature_encoder.column_encoders]) == (("p", "q"), ["id"])
    found = read_tables(edges, people, source="from", target="w", id="label", time="y")
    assert (found.graph.labels, [part.column for part in found.feature_encoder.column_encoders]) == (None, ["id"])


def test_a_first_line_without_known_names_is_an_edge_and_that_is_said(tmp_path):
    found = read_tables(saved(tmp_path, "e.csv", "x,y\ny,z\n"))
    assert pairs(found.graph) == {("x", "y"), ("y", "z")}
    assert "read as an edge" in found.ingest_report.remarks[0]


# -- ids --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (["1", "2", "30"], int),
        (["-7", "0", "999999999999999999"], int),
        (["007", "7", "8"], str),
        (["1", "two", "3"], str),
        (["ü", "漢字", "a b"], str),
        (["1.5", "2", "3"], str),
        (["99999999999999999999999", "1", "2"], str),
    ],
)
def test_ids_of_any_kind_are_kept_and_given_back(tmp_path, ids, kind):
    a, b, c = ids
    found = read_tables(saved(tmp_path, "e.csv", f"source,target\n{a},{b}\n{b},{c}\n"))
    assert sorted(found.graph.ids.tolist(), key=str) == sorted(map(kind, ids), key=str)
    assert pairs(found.graph) == {tuple(sorted(map(kind, pair), key=str)) for pair in ((a, b), (b, c))}


def test_ids_that_are_numbers_here_and_texts_there_meet(tmp_path):
    import pyarrow as pa

    nodes = pa.table({"id": [1, 2, 3], "x": [0.0, 1.0, 2.0]})
    found = read_tables(saved(tmp_path, "e.csv", "source,target\n1,2\nb,3\n"), nodes)
    assert found.graph.ids.tolist() == ["1", "2", "3"]
    assert pairs(found.graph) == {("1", "2")}
    assert (found.ingest_report.dangling, found.ingest_report.first_dangling) == (1, "b")


def test_nodes_stand_in_the_order_of_their_table(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x\nzebra,1\nape,2\nlone,4\n")
    found = read_tables(saved(tmp_path, "e.csv", "source,target\nape,zebra\n"), nodes)
    assert found.graph.ids.tolist() == ["zebra", "ape", "lone"]
    assert found.ingest_report.isolated == 1


# -- edges ------------------------------------------------------------------------------------------------------------------


def test_duplicates_loops_and_both_directions_are_counted_and_cleaned(tmp_path):
    text = "source,target,weight\na,b,1\na,b,2\nb,a,4\nb,b,9\nb,c,5\nc,b,5\n"
    found = read_tables(saved(tmp_path, "e.csv", text))
    # Rows of one direction add up, 1 + 2; of the two directions the larger counts.
    assert weights(found.graph) == {("a", "b"): 4, ("b", "a"): 4, ("b", "c"): 5, ("c", "b"): 5}
    told = found.ingest_report
    assert (told.rows, told.loops, told.duplicates, told.dangling) == (6, 1, 1, 0)
    directed = read_tables(tmp_path / "e.csv", directed=True)
    assert weights(directed.graph) == {("a", "b"): 3, ("b", "a"): 4, ("b", "c"): 5, ("c", "b"): 5}
    assert directed.ingest_report.duplicates == 1


def test_the_same_tables_give_the_same_graph_in_any_order_of_rows(tmp_path):
    rows = [f"n{i % 17},n{i * 7 % 23}" for i in range(60)]
    first = read_tables(saved(tmp_path, "a.csv", "source,target\n" + "\n".join(rows)))
    second = read_tables(saved(tmp_path, "b.csv", "source,target\n" + "\n".join(reversed(rows))))
    assert first.graph.digest == second.graph.digest
    assert first.graph.ids.tolist() == second.graph.ids.tolist()


# -- labels and features -----------------------------------------------------------------------------------------------------


def test_labels_are_classes_and_no_feature(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x,label,day\na,1,10,1\nb,2,9,2\nc,3,,3\n")
    found = read_tables(saved(tmp_path, "e.csv", EDGES), nodes, time="Day")
    assert found.classes == ("9", "10")
    assert found.graph.labels.tolist() == [1, 0, -1]
    assert [part.column for part in found.feature_encoder.column_encoders] == ["x"]


def test_without_nodes_features_are_of_structure(tmp_path):
    star = "source,target\n" + "\n".join(f"hub,leaf{i}" for i in range(5)) + "\nx,y\n"
    found = read_tables(saved(tmp_path, "e.csv", star))
    assert found.feature_encoder.column_encoders == ()
    assert found.feature_encoder.width == found.graph.num_features == 4
    assert found.columns is None
    features = found.graph.features
    place = {name: i for i, name in enumerate(found.graph.ids.tolist())}
    assert features[:, 0].argmax() == place["hub"]
    assert np.isfinite(features).all()


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("id\na\nb\nc\n", "there are none besides ids, labels and times"),
        ("id,label\na,u\nb,v\nc,u\n", "there are none besides ids, labels and times"),
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


def test_structure_of_tomorrow_is_scaled_as_today(tmp_path):
    first = read_tables(saved(tmp_path, "e.csv", EDGES + "c,d\nd,e\nd,f\n"))
    second = read_tables(saved(tmp_path, "t.csv", EDGES), feature_encoder=first.feature_encoder)
    centre, scale = first.feature_encoder.structure.centre[0], first.feature_encoder.structure.scale[0]
    assert np.allclose(second.graph.features[:, 0], (np.log1p([1, 2, 1]) - centre) / scale, atol=1e-5)
    assert second.feature_encoder == first.feature_encoder


def test_columns_of_nodes_are_kept_as_they_were(tmp_path):
    people = (
        "SELECT 'cab'[i + 1] AS id, i::HUGEINT AS big, i * 1.5::DOUBLE AS x, 'k' || i AS label, "
        "DATE '2026-01-01' + i::INT AS day, TIME '10:00' AS hour, i = 1 AS flag, [i] AS list, {'a': i} AS struct, "
        "'x'::BLOB AS blob, NULL AS nothing FROM range(3) r(i)"
    )
    found = read_tables(saved(tmp_path, "e.csv", EDGES), nodes_query=people)
    assert found.columns.column_names == ["id", "big", "x", "label", "day", "hour", "flag", "nothing"]
    rows = found.columns.to_pydict()
    assert rows["id"] == found.graph.ids.tolist() == ["c", "a", "b"]
    assert (rows["big"], rows["x"], rows["hour"], rows["flag"]) == (
        [0, 1, 2],
        [0, 1.5, 3],
        ["10:00:00"] * 3,
        [False, True, False],
    )
    assert [str(day) for day in rows["day"]] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [found.classes[label] for label in found.graph.labels] == rows["label"]
    texts = read_tables(tmp_path / "e.csv", saved(tmp_path, "n.csv", "id,x, Y 2\nb, 1 ,q\na,,r\n"))
    assert texts.columns.to_pydict() == {"id": ["b", "a"], "x": [" 1 ", None], "Y 2": ["q", "r"]}


# -- properties --------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8).map(str.strip).filter(bool)


@pytest.mark.fuzz
@hypothesis.settings(max_examples=examples(25), deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=20))
def test_any_ids_survive_the_way_through_csv(tmp_path_factory, rows):
    hypothesis.assume(any(a != b for a, b in rows))
    hypothesis.assume(not any(text.startswith("#") for pair in rows for text in pair))
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("source", "target"), *rows])
    path = saved(tmp_path_factory.mktemp("any"), "e.csv", out.getvalue())
    found = read_tables(path)
    names = sorted({text for pair in rows for text in pair})
    assert sorted(map(str, found.graph.ids.tolist())) == names
    expected = {tuple(sorted(pair)) for pair in rows if pair[0] != pair[1]}
    assert {tuple(sorted(map(str, pair))) for pair in pairs(found.graph)} == expected
    assert found.ingest_report.rows == len(rows)
    assert found.ingest_report.loops == sum(a == b for a, b in rows)


def test_an_encoding_is_used_again(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x,kind\na,1,red\nb,3,blue\nc,5,red\n")
    edges = saved(tmp_path, "e.csv", EDGES)
    first = read_tables(edges, nodes)
    again = FeatureEncoder.from_json(first.feature_encoder.to_json())
    tomorrow = saved(tmp_path, "t.csv", "id,kind\nb,blue\nc,green\na,red\n")
    second = read_tables(edges, tomorrow, feature_encoder=again)
    x = second.graph.features.toarray()
    # No x any more, and no green before: both are as if they were not known.
    assert second.graph.num_features == first.graph.num_features
    assert x[:, 0].tolist() == [0, 0, 0]
    assert x[:, 1:].tolist() == [[1, 0], [0, 0], [0, 1]]


# -- what users stumbled over -----------------------------------------------------------------------------------------------


def test_edges_that_all_lead_nowhere_are_refused_with_how_ids_differ(tmp_path):
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    edges.write_text("source,target\n7,8\n8,9\n")
    nodes.write_text("id,x\n007,1\n008,2\n009,3\n")
    with pytest.raises(DataError, match=r"e\.csv: no edge has an id of the node table: .*'7'.*'007' in 'id'; .*: --id"):
        read_tables(edges, nodes)


def test_edges_given_both_ways_and_without_weight_are_told(tmp_path):
    edges = tmp_path / "e.csv"
    edges.write_text("source,target,weight\na,b,1\nb,a,1\nb,c,0\nc,a,2\n")
    said = " ".join(read_tables(edges).ingest_report.remarks)
    assert "1 rows give an edge the other way round" in said
    assert "1 edges have weight 0" in said


def test_dates_in_text_are_dates(tmp_path):
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    edges.write_text("source,target\na,b\nb,c\n")
    nodes.write_text("id,when,year\na,2022-04-08,2022-1\nb,2023-01-01,2023-1\nc,,2024-1\n")
    parts = {part.column: part.kind for part in read_tables(edges, nodes).feature_encoder.column_encoders}
    assert parts == {"when": "datetime", "year": "category"}


def test_a_named_index_of_pandas_is_a_column():
    pandas = pytest.importorskip("pandas")
    edges = pandas.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    nodes = pandas.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 3.5]}).set_index("id")
    assert read_tables(edges, nodes).graph.ids.tolist() == ["a", "b", "c"]

"""Two tables as a graph: what goes in comes out, and what is wrong is named with its file, column and row."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from clnr.errors import DataError
from clnr.tables import Encoding, read_tables

pytest.importorskip("duckdb")
hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")


def saved(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


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

EDGES = "source,target\na,b\nb,c\n"


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
        ("e.csv.gz", gzip.compress(EDGES.encode())),
        ("e.jsonl", '{"source": "a", "target": "b"}\n{"source": "b", "target": "c"}\n'),
        ("e.json", '[{"source": "a", "target": "b"}, {"source": "b", "target": "c"}]'),
    ],
)
def test_text_of_many_forms(tmp_path, name, text):
    found = read_tables(saved(tmp_path, name, text))
    assert pairs(found.graph) == {("a", "b"), ("b", "c")}
    assert found.findings.rows == 2


def test_parquet_globs_queries_and_frames(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
    pq.write_table(frame.slice(0, 1), tmp_path / "part-1.parquet")
    pq.write_table(frame.slice(1, 1), tmp_path / "part-2.parquet")
    for given in (
        tmp_path / "part-*.parquet",
        f"SELECT * FROM '{tmp_path}/part-*.parquet'",
        "FROM (VALUES ('a', 'b'), ('b', 'c')) t(source, target)",
        frame,
    ):
        assert pairs(read_tables(given).graph) == {("a", "b"), ("b", "c")}


def test_columns_can_be_named(tmp_path):
    path = saved(tmp_path, "e.csv", "who,whom,how much\na,b,2\nb,c,3\n")
    found = read_tables(path, source="who", target="WHOM", weight="how much")
    assert weights(found.graph)["a", "b"] == 2
    assert found.findings.remarks == ()


def test_a_first_line_without_known_names_is_an_edge_and_that_is_said(tmp_path):
    found = read_tables(saved(tmp_path, "e.csv", "x,y\ny,z\n"))
    assert pairs(found.graph) == {("x", "y"), ("y", "z")}
    assert "taken for an edge" in found.findings.remarks[0]


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
    assert (found.findings.dangling, found.findings.first_dangling) == (1, "b")


def test_nodes_stand_in_the_order_of_their_table(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x\nzebra,1\nape,2\nlone,4\n")
    found = read_tables(saved(tmp_path, "e.csv", "source,target\nape,zebra\n"), nodes)
    assert found.graph.ids.tolist() == ["zebra", "ape", "lone"]
    assert found.findings.isolated == 1


# -- edges ------------------------------------------------------------------------------------------------------------------


def test_duplicates_loops_and_both_directions_are_counted_and_cleaned(tmp_path):
    text = "source,target,weight\na,b,1\na,b,2\nb,a,4\nb,b,9\nb,c,5\nc,b,5\n"
    found = read_tables(saved(tmp_path, "e.csv", text))
    # Rows of one direction add up, 1 + 2; of the two directions the larger counts.
    assert weights(found.graph) == {("a", "b"): 4, ("b", "a"): 4, ("b", "c"): 5, ("c", "b"): 5}
    told = found.findings
    assert (told.rows, told.loops, told.duplicates, told.dangling) == (6, 1, 1, 0)
    directed = read_tables(tmp_path / "e.csv", directed=True)
    assert weights(directed.graph) == {("a", "b"): 3, ("b", "a"): 4, ("b", "c"): 5, ("c", "b"): 5}
    assert directed.findings.duplicates == 1


def test_the_same_tables_give_the_same_graph_in_any_order_of_rows(tmp_path):
    rows = [f"n{i % 17},n{i * 7 % 23}" for i in range(60)]
    first = read_tables(saved(tmp_path, "a.csv", "source,target\n" + "\n".join(rows)))
    second = read_tables(saved(tmp_path, "b.csv", "source,target\n" + "\n".join(reversed(rows))))
    assert first.graph.digest == second.graph.digest
    assert first.graph.ids.tolist() == second.graph.ids.tolist()


# -- what is wrong ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ("", "e.csv: there is nothing in it"),
        ("\n\n", "e.csv: there is nothing in it"),
        ("source,target\n", "e.csv: there is no edge in it"),
        ("source\na\n", "e.csv: it has one column"),
        ("source,target\na,b\n,c\n", "e.csv: 'source' is empty in row 2"),
        ("source,target\na,b\nc,  \n", "e.csv: 'target' is empty in row 2"),
        ("source,target\na,b\nc,d,e\n", "e.csv: line 3: "),
        ("source,target\na,b\nc\n", "e.csv: line 3: "),
        ("source,target,weight\na,b,1\nb,c,heavy\n", "e.csv: "),
        ("source,target,weight\na,b,1\nb,c,-1\n", "e.csv: 'weight' is no weight: not a number from 0 on in row 2"),
        ("source,target,weight\na,b,1\nb,c,nan\n", "in row 2"),
        ("source,target,weight\na,b,1\nb,c,inf\n", "in row 2"),
        ("source,target,weight\na,b,1\nb,c,\n", "in row 2"),
        ("source,target,source\na,b,c\n", "e.csv: its first line has column 'source' twice"),
        (b"source,target\n\xff\xfe,b\n", "e.csv: "),
    ],
)
def test_a_bad_table_of_edges_is_named_with_its_place(tmp_path, edges, said):
    with pytest.raises(DataError) as caught:
        read_tables(saved(tmp_path, "e.csv", edges))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("id,x\na,1\nb,2\na,3\n", "n.csv: node 'a' is there twice, in rows 1 and 3"),
        ("id,x\na,1\n,2\n", "n.csv: 'id' is empty in row 2"),
        ("id,x\n", "n.csv: there is no node in it"),
    ],
)
def test_a_bad_table_of_nodes_is_named_with_its_place(tmp_path, nodes, said):
    with pytest.raises(DataError) as caught:
        read_tables(saved(tmp_path, "e.csv", EDGES), saved(tmp_path, "n.csv", nodes))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere.csv", "nowhere.csv: there is no such file"),
        ("graph.xls", "graph.xls: of what form it is"),
        ("SELECT * FROM nowhere", "SELECT * FROM nowhere: "),
        (7, "edges are to be a file, a query or a data frame, not a int"),
    ],
)
def test_what_is_no_table_is_refused(given, said):
    with pytest.raises(DataError) as caught:
        read_tables(given)
    assert said in str(caught.value)


def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path):
    path = saved(tmp_path, "e.csv", EDGES)
    with pytest.raises(DataError, match="no column 'who' for source; there are source, target"):
        read_tables(path, source="who")
    with pytest.raises(DataError, match="cannot be both ends"):
        read_tables(path, source="target")
    with pytest.raises(DataError, match="memory is to be an amount"):
        read_tables(path, memory="much")


# -- labels and features -----------------------------------------------------------------------------------------------------


def test_labels_are_classes_and_no_feature(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x,label,day\na,1,10,1\nb,2,9,2\nc,3,,3\n")
    found = read_tables(saved(tmp_path, "e.csv", EDGES), nodes, time="Day")
    assert found.classes == ("9", "10")
    assert found.graph.labels.tolist() == [1, 0, -1]
    assert [part.column for part in found.encoding.parts] == ["x"]


def test_without_nodes_features_are_of_structure_and_follow_ids(tmp_path):
    star = "source,target\n" + "\n".join(f"hub,leaf{i}" for i in range(5)) + "\nx,y\n"
    found = read_tables(saved(tmp_path, "e.csv", star))
    assert found.encoding.parts == ()
    assert found.encoding.width == found.graph.num_features == 132
    assert found.columns is None
    features = found.graph.features
    place = {name: i for i, name in enumerate(found.graph.ids.tolist())}
    assert features[:, 0].argmax() == place["hub"]
    assert np.isfinite(features).all()
    more = read_tables(saved(tmp_path, "more.csv", star + "x,z\n"))
    again = {name: i for i, name in enumerate(more.graph.ids.tolist())}
    for name in place:
        assert np.array_equal(features[place[name], 4:], more.graph.features[again[name], 4:])
    marks = features[:, 4:]
    assert abs(np.corrcoef(marks)[np.triu_indices(len(marks), 1)]).max() < 0.5


# -- properties --------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8).map(str.strip).filter(bool)


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
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
    assert found.findings.rows == len(rows)
    assert found.findings.loops == sum(a == b for a, b in rows)


@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.binary(max_size=200))
def test_any_bytes_are_a_graph_or_one_line(tmp_path_factory, content):
    path = saved(tmp_path_factory.mktemp("bytes"), "e.csv", content)
    said = ""
    try:
        assert read_tables(path).graph.num_nodes >= 1
    except DataError as error:
        said = str(error)
    assert "\n" not in said


def test_an_encoding_is_used_again(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x,kind\na,1,red\nb,3,blue\nc,5,red\n")
    edges = saved(tmp_path, "e.csv", EDGES)
    first = read_tables(edges, nodes)
    again = Encoding.from_json(first.encoding.to_json())
    tomorrow = saved(tmp_path, "t.csv", "id,kind\nb,blue\nc,green\na,red\n")
    second = read_tables(edges, tomorrow, encoding=again)
    x = second.graph.features.toarray()
    # No x any more, and no green before: both are as if they were not known.
    assert second.graph.num_features == first.graph.num_features
    assert x[:, 0].tolist() == [0, 0, 0]
    assert x[:, 1:].tolist() == [[1, 0], [0, 0], [0, 1]]

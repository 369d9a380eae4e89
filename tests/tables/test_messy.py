"""What is wrong is named in one line with its file, column and row; what is only untidy is read."""

from __future__ import annotations

import gzip
import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from clnr.tables.ingest_report import column_lines
from clnr.tables.io import csv_header
from clnr.tables.io.encodings import NOT_UTF_8
from tests.tables.files import EDGES, columns_of, dense, edge_weights, saved, written


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ("", "e.csv: it is empty"),
        ("\n\n", "e.csv: it is empty"),
        ("source,target\n", "e.csv: it has no edges"),
        ("source\na\n", "e.csv: it has one column"),
        ("source,target\na,b\n,c\n", "e.csv: 'source' is empty in row 2"),
        ("source,target\na,b\nc,d,e\n", "e.csv: line 3: it has more than 2 columns instead of 2"),
        ("source,target,weight\na,b,1\nb,c,-1\n", "e.csv: 'weight' is '-1' in row 2, which is negative, but a weight"),
        ("source,target,weight\na,b,1\nb,c,nan\n", "'weight' is 'nan' in row 2, which is not a weight"),
        ("source,target,weight\na,b,1\nb,c, \n", "'weight' is empty in row 2; fill it in"),
        ("source,target,weight\na,b,0\nb,c,0.0\n", "e.csv: 'weight' is 0 in all rows, and edges of weight 0 are dropped"),
        ("source,target,source\na,b,c\n", "e.csv: it has two columns of the same name, 'source' and 'source'"),
        (b"source,target\n\xff\xfe,b\n", "e.csv: line 2: it is not UTF-8 text; set its encoding, such as --encoding cp1252"),
        ("source,target,weight\na,b,1\nb,c,1e400\n", "e.csv: 'weight' is '1e400' in row 2, which is not a weight; weights"),
        ("source,target,weight\na,b,1\nb,c,1e39\n", "e.csv: 'weight' is '1e39' in row 2, which is not a weight"),
        ("source,target,weight\na,b,3e38\na,b,3e38\n", "e.csv: the weights of a repeated edge add up to more"),
        ("source,target\r\na,b\r\nc,d,e\r\n", "e.csv: line 3: it has more than 2 columns instead of 2"),
        (
            EDGES + '"b,c\nd,e\n',
            "e.csv: line 4: a quote is opened and not closed; read_csv('FILE', quote = '') in a query reads it as text",
        ),
        (b"\x00\x01\x02,a\n", "e.csv: line 1: it is not text: it holds a zero byte"),
        (EDGES.encode("utf-16")[:-1], "e.csv: line 3: it is not text in UTF-16; set its encoding: --encoding"),
        ("source,target,\na,b,\n", "e.csv: it has a column without a name"),
    ],
)
def test_a_bad_table_of_edges_is_named_with_its_place(tmp_path, edges, said):
    with pytest.raises(DataError) as caught:
        read_tables(saved(tmp_path, "e.csv", edges))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("id,x\na,1\nb,2\na,3\n", "n.csv: node 'a' occurs twice, in rows 1 and 3"),
        ("person,to whom\n1,2\n1,3\n", "if its rows are edges, give it as --edges"),
        ("id,x\na,1\nz,2\n", "no edge has both its ends in the node table: 'b' is not there; are 'source' and "),
        ("id,x\na,1\n,2\n", "n.csv: 'id' is empty in row 2"),
        ("id,x\n", "n.csv: it has no nodes"),
    ],
)
def test_a_bad_table_of_nodes_is_named_with_its_place(tmp_path, nodes, said):
    with pytest.raises(DataError) as caught:
        read_tables(saved(tmp_path, "e.csv", EDGES), saved(tmp_path, "n.csv", nodes))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (__file__, "test_messy.py: its format is unknown"),
        pytest.param("a,b\n" * 2000, "it cannot be read: File name too long", id="the content itself"),
        ("", "a table must be a file or a data frame, not empty text"),
    ],
)
def test_what_is_no_table_is_refused(given, said):
    with pytest.raises(DataError) as caught:
        read_tables(given)
    assert said in str(caught.value)


UUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
EMPTY = "from,to,the kind,weight,day\na,b,x,1,2020\n,c,x,1,2020\nb,,x,1,2020\n ,d,,1,2020\nd,a,y,,\nd,c,y,3,2021\n"


def test_empty_ends_and_ids_are_refused_with_their_row(tmp_path):
    path = saved(tmp_path, "e.csv", EMPTY)
    with pytest.raises(DataError, match=r"'from' is empty in row 2 \(and 1 more\)"):
        read_tables(path, edge_type="the kind")
    nodes = saved(tmp_path, "n.csv", "id,x\na,1\n,2\n ,3\nb,5\nc,\nd,9\n")
    with pytest.raises(DataError, match=r"'id' is empty in row 2 \(and 1 more\); .*; or name another .*--id"):
        read_tables(pa.table({"source": ["a"], "target": ["b"]}), nodes)


def test_two_ends_are_two_columns_and_memory_is_an_amount(tmp_path):
    path = saved(tmp_path, "e.csv", EDGES)
    with pytest.raises(DataError, match="cannot be both source and target"):
        read_tables(path, source="target", target="Target")
    with pytest.raises(DataError, match=r"^--memory must be an amount"):
        read_tables(path, memory="much")


@pytest.mark.parametrize(
    ("rows", "wrong", "said"),
    [
        (300_000, b"c\n", "it has 1 column instead of 2"),
        (300_000, b"\xcf\xf0\xe8\xe2\xe5\xf2,c\n", NOT_UTF_8),
        (1000, b'"c,d\n', "a quote is opened and not closed; read_csv('FILE', quote = '') in a query reads it as text"),
    ],
)
def test_a_line_far_down_is_named(tmp_path, rows, wrong, said):
    path = saved(tmp_path, "e.csv", b"source,target\n" + b"a,b\n" * rows + wrong + b"b,c\n")
    with pytest.raises(DataError) as caught:
        read_tables(path)
    assert str(caught.value) == f"{path}: line {rows + 2:,}: {said}"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("e.json", '[{"source": "a", "target": "b"},\n {"source": ', "line 2: it is not JSON: Expecting value"),
        ("e.jsonl", '{"source": "a", "target": "b"}\n{"source": oops}\n', "line 2: it is not JSON: Expecting value at"),
        ("e.jsonl.gz", gzip.compress(b'{"source": 1, "target": 2}\n\n{"source": 1 2}\n', mtime=0), "line 3: it is not JSON"),
        ("e.json", "", "it has no rows with named columns"),
        ("e.json", "[1, 2]", "it has no rows with named columns"),
        ("e.csv.gz", b"no gzip", "it cannot be read: Not a gzipped file"),
        ("e.csv.gz", gzip.compress(EDGES.encode() * 99, mtime=0)[:40], "it cannot be read: Compressed file ended"),
        ("e.csv.zst", b"no zstd", "it cannot be read: "),
        ("e.csv.gz", gzip.compress(b"", mtime=0), "it is empty"),
        ("half.parquet", lambda whole: whole[: len(whole) // 2], "it is not a Parquet file, or is truncated"),
        ("empty.parquet", b"", "it is not a Parquet file, or is truncated"),
        ("text.parquet", EDGES, "it is not a Parquet file, or is truncated"),
        ("hole.parquet", lambda whole: whole[:200] + bytes(len(whole) - 900) + whole[-700:], ""),
    ],
)
def test_files_that_are_damaged(tmp_path, name, content, said):
    if callable(content):
        pq.write_table(pa.table({"source": [f"n{i}" for i in range(5000)], "target": ["x"] * 5000}), tmp_path / "whole")
        content = content((tmp_path / "whole").read_bytes())
    with pytest.raises(DataError) as caught:
        read_tables(saved(tmp_path, name, content))
    assert str(caught.value).startswith(f"{tmp_path / name}: {said}")


@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.parquet"])
def test_a_folder_and_what_is_not_there(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"{name}: it is a folder; name a file"):
        read_tables(tmp_path / name)
    missing = tmp_path / name.replace("folder", "no*")
    with pytest.raises(DataError, match=rf"no\*{name.removeprefix('folder')}: there is no such file$"):
        read_tables(missing)


def test_several_files_have_the_same_columns_and_a_wrong_one_is_named(tmp_path):
    for name, text in (("a", EDGES), ("b", ""), ("c", "# more\n" + EDGES)):
        saved(tmp_path, f"{name}.csv", text)
    assert read_tables(tmp_path / "*.csv").ingest_report.rows == 4
    for text, said in (
        (EDGES + "c,d,e\n", "line 4: it has more than 2 columns instead of 2"),
        ("target,source\na,b\n", f"its first line has other columns than that of {tmp_path / 'a.csv'}"),
    ):
        path = saved(tmp_path, "d.csv", text)
        with pytest.raises(DataError) as caught:
            read_tables(tmp_path / "*.csv")
        assert str(caught.value) == f"{path}: {said}"


@pytest.mark.parametrize(
    ("values", "said", "right"),
    [
        (["<11", "12", "> 30", "?"], "a query reads '<11' as 11", [11, 12, 30]),
        (["12", "much", "nan", "7"], "a query leaves 2 of 4 rows out", [12, 7]),
        (["12", "inf", "1e39", "7"], "a query leaves 2 of 4 rows out", [12, 7]),
        (["5", "8", "~6", "7"], "a query reads '~6' as 6", [5, 6, 7, 8]),
    ],
)
@pytest.mark.parametrize("name", ["weight", "No. of patients", "order"])
def test_weights_that_are_no_numbers_are_refused_with_a_query_that_works(tmp_path, values, said, right, name):
    columns = {"source": list("abcd"), "target": list("bcde"), name: values}
    edges = written(tmp_path, "csv", columns)
    with pytest.raises(DataError, match=f"which is not a weight; .*; {said}: --edges") as caught:
        read_tables(edges, weight=name)
    query = shlex.split(str(caught.value)[str(caught.value).index("--edges") :])[1].removesuffix(";")
    weights = read_tables(edges=query, weight=name).graph.edges()[2]
    assert sorted(set(weights.tolist())) == sorted(right)


def test_a_column_of_words_is_no_weight(tmp_path):
    games = saved(tmp_path, "e.csv", "source,target,winner\na,b,white\nb,c,draw\nc,a,3\n")
    with pytest.raises(DataError) as caught:
        read_tables(games, weight="winner")
    cure = "name another --weight, or --ignore winner leaves weights out"
    assert str(caught.value) == f"{games}: 'winner' holds no numbers in 2 of 3 rows, such as 'white'; {cure}"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_infinite_weights_are_refused_with_a_query_that_works(tmp_path, form):
    weights = [0.5, np.inf, 1e300, 4.0]
    edges = written(tmp_path, form, {"source": list("abcd"), "target": list("bcde"), "weight": weights})
    with pytest.raises(DataError, match=r"is 'inf' in row 2 .*--edges") as caught:
        read_tables(edges)
    query = shlex.split(str(caught.value)[str(caught.value).index("--edges") :])[1].removesuffix(";")
    assert edge_weights(read_tables(edges=query).graph).keys() == {("a", "b"), ("b", "a"), ("d", "e"), ("e", "d")}


@pytest.mark.parametrize(
    ("form", "values", "right"),
    [
        ("csv", ["0,5", "4", "1.000,0"], [2, 0.25, 0.001]),
        ("csv", ["1 234,5 km", "4 km", "8,0 km"], [1 / 1234.5, 0.25, 0.125]),
        ("csv", ["1,250.5", "4", "2"], [1 / 1250.5, 0.25, 0.5]),
        ("csv", ["0", "4", "2"], [0.5, 0.25, 0.5]),
        ("parquet", [0.0, 4.0, 2.0], [0.5, 0.25, 0.5]),
        ("jsonl", [5, 4, 2], [0.2, 0.25, 0.5]),
    ],
)
@pytest.mark.parametrize("name", ["distance", "Länge (km)", "travel_cost"])
def test_distances_as_weights_are_told_with_a_query_that_works(tmp_path, form, values, right, name):
    edges = written(tmp_path, form, {"source": list("abc"), "target": list("bcd"), name: values})
    (line,) = (each for each in read_tables(edges, weight=name).ingest_report.remarks if "larger" in each)
    assert line.startswith(f"{edges}: larger weights mean closer; if '{name}' is a distance, a query turns")
    turned = read_tables(edges=shlex.split(line[line.index("--edges") :])[1], weight=name)
    weights = edge_weights(turned.graph)
    assert [weights[pair] for pair in (("a", "b"), ("b", "c"), ("c", "d"))] == pytest.approx(right, rel=1e-6)
    assert not any("larger" in each for each in turned.ingest_report.remarks)


def test_numbers_beside_the_ends_that_are_not_used_are_told_once(tmp_path):
    edges = saved(tmp_path, "e.csv", "buyer,seller,the amount,year,how\na,b,5,1999,x\nb,c,7,2000,y\n")
    said = f"{edges}: numeric columns not used: {{}}; to use one as the weight: --weight {{}}"
    assert read_tables(edges).ingest_report.remarks == (said.format("'the amount', 'year'", "COLUMN"),)
    asked = read_tables(edges, ignore=["the amount"]).ingest_report.remarks
    assert asked == (said.format("'year'", "year"),)
    for more in ({"weight": "the amount"}, {"ignore": ["the amount", "year"]}):
        assert read_tables(edges, **more).ingest_report.remarks == ()
    first = read_tables(edges)
    merged = "merged: 2 edges that the earlier graph has; each edge counts once"
    assert read_tables(edges, base=first).ingest_report.remarks == (merged,)


def test_numbers_of_several_tables_are_named_once_and_those_that_are_all_the_same_not(tmp_path):
    yes = saved(tmp_path, "yes.csv", "a,b,year,prob,congress\nx,y,1,5,118\ny,z,2,7,118\n")
    no = saved(tmp_path, "no.csv", "a,b,prob,congress\nx,z,0.5,118\nz,w,2,118\n")
    read = read_tables({"yes": yes, "no": no}, ignore=["year"])
    said = "numeric columns not used: 'prob'; to use one as the weight: --weight prob"
    assert read.ingest_report.remarks == (f"{yes}, {no}: {said}",)
    assert "edges no 'congress': not used, number: its values are all the same" in column_lines(read.ingest_report.columns)


def test_a_number_of_rows_is_no_weight(tmp_path):
    rows = "".join(f"{i},a{i % 5},b{i % 3},{1000 - 7 * i},{i % 4}.5,{i % 6}\n" for i in range(120))
    edges = saved(tmp_path, "e.csv", f"nr,from,to,serial,Länge_km,uses\n{rows}")
    said = f"{edges}: numeric columns not used: {{}}; to use one as the weight: --weight {{}}"
    assert read_tables(edges).ingest_report.remarks[-1:] == (said.format("'Länge_km', 'uses'", "COLUMN"),)
    asked = read_tables(edges, ignore=["uses"]).ingest_report.remarks
    assert asked[-1:] == (said.format("'Länge_km'", "'Länge_km'"),)
    lines = column_lines(read_tables(edges).ingest_report.columns)
    assert lines[0] == "edges 'nr': not used, number: its values are distinct whole numbers, like ids"
    assert "like ids" in lines[3]
    # Who names it has it.
    assert read_tables(edges, weight="nr").graph.to_scipy().sum() / 2 == sum(range(120))


def test_a_column_of_the_other_table_is_told(tmp_path):
    ratings = saved(tmp_path, "ratings.csv", "user,film,rating\na,b,5\nb,c,3\nc,a,4\n")
    films = saved(tmp_path, "films.csv", "film,year,genre\na,1,x\nb,2,y\nc,3,x\n")
    swap = "; if the tables are swapped, exchange --edges and --nodes"
    of_nodes = "; ids, labels, times and features of nodes are columns of the node table"
    of_edges = "; sources, targets, weights, kinds and times of edges are columns of the edge table"
    both, label = {"label": "rating", "source": "user"}, f"'rating' for label is a column of {ratings} (--edges), "
    for edges, nodes, named, said in (
        (ratings, films, {"label": "rating"}, f"{label}not of {films}{of_nodes}{swap}"),
        (ratings, films, both, f"{label}not of {films}{of_nodes}"),
        (
            films,
            ratings,
            {"label": "Genre"},
            f"'Genre' for label is a column of {films} (--edges), not of {ratings}{of_nodes}{swap}",
        ),
        (
            films,
            ratings,
            {"weight": "rating"},
            f"'rating' for weight is a column of {ratings} (--nodes), not of {films}{of_edges}{swap}",
        ),
        (ratings, None, {"label": "rating"}, f"{label}and --nodes is missing{of_nodes}"),
        (ratings, None, {"id": "film2"}, "column 'film2' for id needs a node table: --nodes"),
        (
            {("u", "saw", "f"): ratings},
            {"f": films},
            {"label": "rating"},
            f"{label}not of {films}{of_nodes}{swap}",
        ),
    ):
        with pytest.raises(DataError) as caught:
            read_tables(edges, nodes, **named)
        assert str(caught.value) == said
    with pytest.raises(DataError, match=r"films\.csv: there is no column 'genres' for label; did you mean 'genre'\?"):
        read_tables(ratings, films, label="genres")


def test_tables_of_another_model_are_told_by_their_columns(tmp_path):
    earlier = read_tables(saved(tmp_path, "e.csv", EDGES), saved(tmp_path, "n.csv", "id,age,job\na,1,x\nb,5,y\nc,2,x\n"))
    flights = saved(tmp_path, "flights.csv", "airline,start,end,hour\nLH,FRA,TXL,5\nBA,LHR,FRA,7\n")
    ports = saved(tmp_path, "ports.csv", "code,city,area\nFRA,Frankfurt,1\nTXL,Berlin,2\nLHR,London,3\n")
    for how in ({"base": earlier}, {"feature_encoder": earlier.feature_encoder}):
        remarks = read_tables(flights, ports, source="start", target="end", id="code", **how).ingest_report.remarks
        assert any(each.startswith(f"warning: {ports}: it lacks 'age', 'job', all") for each in remarks)


# -- untidy -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ("a,b", ["a", "b"]),
        ("source,target\rq,r\r", ["q", "r"]),
        ("source,target\n\n\na,b\n\n", ["a", "b"]),
        ('source,target\n"a,1","b ""x"""\n', ["a,1", 'b "x"']),
        ('source,target\nx,5" disk\n', ['5" disk', "x"]),
        ("source,target\nC#,b\n#ff,b\n", ["#ff", "C#", "b"]),
        ("# seen\n# today\nsource,target\na,b\n# end\n", ["a", "b"]),
        ("source,target\nü,漢字\n😀,ü\n", ["ü", "漢字", "😀"]),
        ("source,target\na,a\n", ["a"]),
    ],
)
def test_untidy_text_is_read(tmp_path, content, ids):
    assert read_tables(saved(tmp_path, "e.csv", content)).graph.ids.tolist() == ids


def test_values_of_several_types_in_json_are_texts_without_quotes(tmp_path):
    rows = '{"source": 1, "target": "b"}\n{"source": "x", "target": 3}\n'
    assert read_tables(saved(tmp_path, "e.jsonl", rows)).graph.ids.tolist() == ["1", "3", "b", "x"]


@pytest.mark.parametrize(
    ("ids", "array"),
    [
        (["2020-01-01", "2020-1-1", "01-02-2020"], True),
        (["2020-01-01T00:00:00", "2020-01-01T00:00:00Z", "2020-01-01T02:00:00+02:00"], False),
        (["10:00", "10:00:00", "12:34:56.789"], True),
        ([UUID, UUID.lower(), UUID.replace("-", "")], False),
    ],
)
def test_texts_in_json_stay_as_they_are_written(tmp_path, ids, array):
    """Ids that look like dates or times are not written otherwise, and two of them do not become one."""
    rows = [{"source": a, "target": ids[0], "it's {": "x", "mixed": each} for a, each in zip(ids[1:], (1, "b"), strict=True)]
    text = json.dumps(rows) if array else "".join(json.dumps(row) + "\n" for row in rows)
    assert read_tables(saved(tmp_path, "e.json", text)).graph.ids.tolist() == sorted(ids)
    people = "".join(json.dumps({"id": each, "label": each, "day": f"2026-01-0{i}"}) + "\n" for i, each in enumerate(ids, 1))
    found = read_tables(tmp_path / "e.json", saved(tmp_path, "n.jsonl", people))
    assert found.graph.ids.tolist() == found.columns["id"].to_pylist() == ids
    assert found.classes == tuple(sorted(ids))
    assert [part.kind for part in found.feature_encoder.column_encoders] == ["datetime"]


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT", "DECIMAL(9, 2)", "HUGEINT", "UBIGINT", "INTEGER"])
def test_whole_numbers_are_whole_whatever_their_type(kind):
    rows = f"SELECT i::{kind} AS source, (i + 1)::{kind} AS target FROM range(3) r(i)"
    assert read_tables(edges=rows).graph.ids.tolist() == [0, 1, 2, 3]
    people = pa.table({"id": ["0", "1", "two"], "x": [1.0, 2.0, 3.0]})
    assert read_tables(edges=rows, nodes=people).graph.num_edges == 2


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "pandas"])
@pytest.mark.parametrize("ids", [[3, 1, 2], ["3", "1", "2"], ["x", "1", "2"], ["007", "1", "2"]])
@pytest.mark.parametrize("ends", [["1", "2"], [1, 2]])
def test_ids_of_columns_are_those_of_the_graph(tmp_path, form, ids, ends):
    """Of one type: a number or its text, whatever the tables have."""
    edges = pa.table({"source": ends, "target": ends[::-1]})
    nodes = written(tmp_path, form, {"key": ids, "x": [0.5, 1.5, 2.5]})
    read = read_tables(edges, nodes)
    whole = form == "csv" and all(str(each) in "123" for each in ids) and isinstance(ends[0], int)
    whole = whole or (isinstance(ids[0], int) and isinstance(ends[0], int))
    assert read.graph.ids.tolist() == [(int if whole else str)(each) for each in ids]
    assert read.columns["key"].to_pylist() == read.graph.ids.tolist()
    ingest(edges, nodes, out=tmp_path / "graph")
    assert load_graph_folder(tmp_path / "graph").columns.equals(read.columns)


def test_numbers_with_fractions_are_texts_and_nan_is_empty():
    assert read_tables(pa.table({"source": [1.5, 2.0], "target": [2.0, 3.0]})).graph.ids.tolist() == ["1.5", "2", "3"]
    for other in (3.0, 3.5):
        with pytest.raises(DataError, match="'source' is empty in row 2"):
            read_tables(pa.table({"source": [1.0, np.nan], "target": [2.0, other]}))


def test_a_column_that_is_almost_numbers_is_told(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,x\na,1\nb,soon\nc,3\n")
    found = read_tables(saved(tmp_path, "e.csv", EDGES), nodes)
    said = "'x' is read as category, though 2 of 3 values are numbers: 'soon' in row 2 is not; --as x=number takes such"
    assert found.ingest_report.remarks == (f"{nodes}: {said} values as empty",)


_NOT = "is not; --as x=number takes such values as empty"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1,25", "viel", "1.234,5"], "2 of 3 values are numbers with a decimal comma: 'viel' in row 2 " + _NOT),
        (["soon", "1,234.5", "7"], "2 of 3 values are numbers with commas between thousands: 'soon' in row 1 " + _NOT),
        (["1,234", "soon", "5,678"], None),  # They may have either.
        (["1,25", "soon", "much"], None),
        (["1,25", "1.5", "3,75"], "it looks like numbers: '1,25'; write them as 1234.5, such as by a query"),
    ],
)
def test_a_column_that_is_almost_numbers_with_commas_is_told(tmp_path, values, said):
    edges = saved(tmp_path, "e.csv", EDGES)
    nodes = saved(tmp_path, "n.csv", "id;x\n" + "".join(f"{name};{value}\n" for name, value in zip("abc", values, strict=True)))
    wanted = () if said is None else (f"{nodes}: 'x' is read as category, though {said}",)
    assert read_tables(edges, nodes).ingest_report.remarks == wanted
    if said is not None and said.endswith("as empty"):
        assert [info.empty for info in read_tables(edges, nodes, types={"x": "number"}).ingest_report.columns][-1] == 1


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (["1.200 €", "7 €", "12 €"], "numbers"),
        (["1,200 %", "7 %", "12 %"], "numbers"),
        (["12 %", "much", "99.5 %"], None),
        (["+49 30 1", "+49 40 2", "030"], None),
    ],
)
def test_dates_and_numbers_that_are_written_otherwise_are_told(tmp_path, values, what):
    nodes = saved(tmp_path, "n.csv", "id;x\n" + "".join(f"{name};{value}\n" for name, value in zip("abc", values, strict=True)))
    remarks = read_tables(saved(tmp_path, "e.csv", EDGES), nodes).ingest_report.remarks
    said = f"{nodes}: 'x' is read as category, though it looks like {what}: '{values[0]}'; write them as "
    assert [line.startswith(said) for line in remarks] == ([] if what is None else [True])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["['a', 'b']", "['b', 'c d']", "['c d', 'a']"], ["a", "b", "c d"]),
        (['["a", "b"]', '["b"]', '["a"]'], ["a", "b", "a"]),
        (["[1, 2]", "[2, 3]", "[]", "[3]"], ["1", "2", None, "3"]),
        (["a;b", "b", "a", "b;a"], ["a", "b", "a", "b"]),
        (["x y|b", "b", "x y", "x y"], ["x y", "b", "x y", "x y"]),
        (["<a><b>", "<b>", "<b><a>", "<a>"], ["a", "b", "b", "a"]),
        (["a, b", "b, c", "c, a", "a, c", "b"], ["a", "b", "c", "a", "b"]),
    ],
)
def test_a_label_of_lists_is_refused_with_a_query_that_takes_one(tmp_path, labels, classes):
    edges = saved(tmp_path, "e.csv", EDGES)
    nodes = written(tmp_path, "csv", {"id": list("abcdefg")[: len(labels)], "my label": labels})
    with pytest.raises(DataError, match=r"the label .my label. has several values in a row, such as .* in row 1") as caught:
        read_tables(edges, nodes, label="my label")
    words = shlex.split(str(caught.value)[str(caught.value).index("--nodes") :])
    read = read_tables(edges, nodes=words[1], label="my label")
    assert [None if each < 0 else read.classes[each] for each in read.graph.labels.tolist()] == classes
    frame = pa.table({"id": list("abcdefg")[: len(labels)], "my label": labels})
    with pytest.raises(DataError, match=r"DuckDB's SQL takes the first of them: .*string_split\(\"my label\""):
        read_tables(edges, frame, label="my label")


@pytest.mark.parametrize(
    "labels",
    [
        ["Paris, France", "Lyon, France", "Nice, France", "Nice, France", "Rome, Italy"],
        ["[0, 10]", "[10, 20]", "[0, 10]"],
        ["cs;AI", "cs;ML", "physics;optics", "cs;AI"],
        ["a-b", "b-c", "c-a"],
        ["['a']", "['b']", "['a']"],
    ],
)
def test_labels_with_signs_in_them_are_classes(tmp_path, labels):
    nodes = pa.table({"id": list("abcdefg")[: len(labels)], "label": labels})
    assert read_tables(saved(tmp_path, "e.csv", EDGES), nodes).classes == tuple(sorted(set(labels)))


def test_lists_of_words_as_text_are_tags_also_if_they_are_equally_long(tmp_path):
    texts = ["['a', 'b']", "['b', 'c']", "['1', 'a']"]
    read = read_tables(saved(tmp_path, "e.csv", EDGES), pa.table({"id": list("abc"), "x": texts}))
    assert columns_of(read) == {"x": "tags"}
    assert (dense(read.graph.features) != 0).tolist() == [[0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]]


def accounts(folder, form, edges):
    """Accounts of three banks, which have the same numbers; and the graph of them by a loop."""
    ids = [(bank, number) for bank in ("DB", "ING", "N26") for number in range(40)]
    pairs = [(ids[i * 7 % 120], ids[(i * 31 + 5) % 120]) for i in range(90)]
    nodes = {
        "bank": [bank for bank, _ in ids],
        "balance": [i % 11 for i in range(120)],
        "account": [number for _, number in ids],
    }
    columns = {name: [pair[end][part] for pair in pairs] for name, (end, part) in edges.items()}
    return written(folder, form, columns, "e"), written(folder, form, nodes), pairs


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_id_of_two_columns_is_told_with_the_queries_that_join_them(tmp_path, form):
    ends = {"from_bank": (0, 0), "from_account": (0, 1), "to_bank": (1, 0), "to_account": (1, 1)}
    edges, nodes, pairs = accounts(tmp_path, form, ends)
    named = {"source": "from_account", "target": "to_account"}
    with pytest.raises(DataError, match=r"node 'DB' occurs twice, .*; 'bank' and 'account' together are distinct; ") as caught:
        read_tables(edges, nodes, **named)
    words = shlex.split(str(caught.value).partition("run it with ")[2])
    assert words[::2] == ["--nodes", "--edges"]
    read = read_tables(nodes=words[1], edges=words[3])
    assert read.graph.num_nodes == 120
    assert read.ingest_report.dangling == 0
    links = {frozenset(f"{bank}/{number}" for bank, number in pair) for pair in pairs}
    assert {frozenset(pair) for pair in edge_weights(read.graph)} == links


def test_a_column_called_id_may_be_a_part_of_it(tmp_path):
    edges = saved(tmp_path, "e.csv", "from_id,to_id,shop\n1,2,a\n2,1,b\n2,3,b\n")
    nodes = saved(tmp_path, "n.csv", "id,shop,x\n1,a,5\n2,a,7\n1,b,9\n2,b,5\n3,b,7\n")
    with pytest.raises(DataError, match=r"'id' and 'shop' together are distinct; ") as caught:
        read_tables(edges, nodes)
    words = shlex.split(str(caught.value).partition("run it with ")[2])
    read = read_tables(nodes=words[1], edges=words[3])
    assert {" ".join(sorted(pair)) for pair in edge_weights(read.graph)} == {"1/a 2/a", "1/b 2/b", "2/b 3/b"}
    assert columns_of(read) == {"shop": "category", "x": "number"}


def test_an_id_of_two_columns_may_have_one_for_both_ends(tmp_path):
    edges, nodes, _ = accounts(tmp_path, "csv", {"from_account": (0, 1), "to_account": (1, 1), "bank": (0, 0)})
    with pytest.raises(
        DataError, match=r"concat_ws\('/', bank, from_account\) AS source, concat_ws\('/', bank, to_account\) AS"
    ):
        read_tables(edges, nodes)
    # What edges do not name is no id.
    frames = saved(tmp_path, "e.csv", EDGES), saved(tmp_path, "n.csv", "id,x\na,1\na,2\nb,1\nc,1\n")
    with pytest.raises(DataError, match="node 'a' occurs twice, in rows 1 and 2, which differ in 'x'; keep one row per node"):
        read_tables(*frames)


REPEATED = {"id": [*"cabacbc"], "x": [3, 1, 2, 1, 3, 2, 3], "note": ["", "p q", "q", "p q", "", "q", ""]}
ONCE = {name: [values[row] for row in (0, 1, 2)] for name, values in REPEATED.items()}


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "pandas"])
def test_rows_that_repeat_a_node_exactly_are_one_node(tmp_path, form):
    """The graph is that of the table in which a loop kept the first row of each node."""
    edges = saved(tmp_path, "e.csv", EDGES)
    once, nodes = read_tables(edges, written(tmp_path, form, ONCE, "once")), written(tmp_path, form, REPEATED)
    read = read_tables(edges, nodes)
    (line,) = (line for line in read.ingest_report.remarks if "repeat" in line)
    assert line.endswith(": merged: 4 rows repeating a node, alike in all columns")
    assert read.graph.ids.tolist() == ["c", "a", "b"]
    assert (read.graph.digest, read.feature_encoder) == (once.graph.digest, once.feature_encoder)
    assert read.columns.equals(once.columns)
    ingest(edges, nodes, out=tmp_path / "graph")
    folder = load_graph_folder(tmp_path / "graph")
    assert (folder.graph.digest, folder.ingest_report) == (read.graph.digest, read.ingest_report)
    more = pa.table({"id": ["z", "z", "a"], "x": [7, 7, 9], "note": ["p", "p", ""]})
    extended = read_tables(None, more, base=once)
    assert extended.graph.ids.tolist() == ["c", "a", "b", "z"]
    assert "the data frame of nodes: merged: 1 row repeating a node, alike in all columns" in extended.ingest_report.remarks
    kinds = read_tables({("p", "knows", "p"): edges}, {"p": nodes})
    assert kinds.graph.ids.tolist() == ["p:c", "p:a", "p:b"]
    assert [line for line in kinds.ingest_report.remarks if "merged: 4 rows repeating a node" in line]


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("key", ["id", "Kunden Nr.", "select"])
def test_rows_of_a_node_that_differ_are_told_with_the_query_that_keeps_one(tmp_path, form, key):
    columns = {key: [*"abcab"], "x": [1, 2, 3, 1, 2], "seen": ["May", None, "June", "May", "July"]}
    edges, nodes = saved(tmp_path, "e.csv", EDGES), written(tmp_path, form, columns)
    with pytest.raises(
        DataError, match="node 'b' occurs twice, in rows 2 and 5, which differ in 'seen'; keep one row"
    ) as caught:
        read_tables(edges, nodes, id=key)
    if "." in key:  # It may be a field of a struct.
        assert "--nodes" not in str(caught.value)
        return
    words = shlex.split(str(caught.value).partition("in the order of all columns: ")[2].partition("; or name")[0])
    assert words[0] == "--nodes"
    read = read_tables(edges, nodes=words[1], id=key)
    assert read.graph.ids.tolist() == ["a", "b", "c"]
    assert read.columns.column("x").to_pylist() == ([*"123"] if form == "csv" else [1, 2, 3])


def test_rows_beside_a_matrix_do_not_repeat(tmp_path):
    for rows in (3, 7):
        with pytest.raises(
            DataError, match=r"the feature matrix: row i of the matrix is row i of the nodes, .* merged: 4 rows repeating"
        ):
            read_tables(saved(tmp_path, "e.csv", EDGES), written(tmp_path, "csv", REPEATED), feature_matrix=np.eye(rows))


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_label_of_numbers_is_told_with_the_query_that_makes_classes(tmp_path, form):
    edges, values = saved(tmp_path, "e.csv", EDGES), [None if i % 9 == 4 else 7 * i % 101 for i in range(60)]
    written_values = ["" if each is None else each for each in values] if form == "csv" else values
    nodes = written(tmp_path, form, {"id": [*"abc", *map(str, range(57))], "downloads": written_values})
    (line,) = (line for line in read_tables(edges, nodes, label="downloads").ingest_report.remarks if "class" in line)
    assert f"{nodes}: nearly every class of 'downloads' has a single node; name another --label, or a query " in line
    words = shlex.split(line)
    read = read_tables(edges, nodes=words[words.index("--nodes") + 1], label="downloads")
    assert [line for line in read.ingest_report.remarks if "class" in line] == []
    present = sorted(each for each in values if each is not None)
    size, more = divmod(len(present), 5)
    bins = {value: k for k in range(5) for value in present[k * size + min(k, more) :][: size + (k < more)]}
    right = dict(zip([*"abc", *map(str, range(57))], (-1 if each is None else bins[each] for each in values), strict=True))
    assert dict(zip(read.graph.ids.tolist(), read.graph.labels.tolist(), strict=True)) == right
    words = pa.table({"id": [*"abc", *map(str, range(57))], "label": [f"w{i}" for i in range(60)]})
    (line,) = (line for line in read_tables(edges, words).ingest_report.remarks if "class" in line)
    assert line.endswith("has a single node; name another --label")


@pytest.mark.parametrize("name", ["kind", "the class"])
def test_a_class_that_is_a_word_for_nothing_is_told_with_a_query_that_leaves_it_out(tmp_path, name):
    edges, values = saved(tmp_path, "e.csv", EDGES), ["Unknown", "it's", "?", "none of these", " ? "]
    nodes = written(tmp_path, "csv", {"id": list("abcde"), name: values, "x": [1, 2, 3, 5, 8]})
    (line,) = read_tables(edges, nodes, label=name).ingest_report.remarks
    cure = "if that is not a label, a query leaves them empty: --nodes "
    said = f"{nodes}: '{name}' has the class '?', 'Unknown'; {cure}"
    assert line.startswith(said)
    read = read_tables(edges, nodes=shlex.split(line.removeprefix(said))[0], label=name)
    assert read.ingest_report.remarks == ()
    assert [None if each < 0 else read.classes[each] for each in read.graph.labels.tolist()] == [
        *(None, "it's", None, "none of these", None)
    ]


def test_classes_that_a_model_does_not_know_are_told():
    def nodes(ids, labels):
        return pa.table({"id": list(ids), "x": [float(ord(each)) for each in ids], "label": labels})

    def edges(a, b):
        return pa.table({"source": [a], "target": [b]})

    base = read_tables(edges("a", "b"), nodes("abc", ["cat", "dog", "cat"]))
    again = read_tables(edges("d", "a"), nodes("d", ["dog"]), base=base)
    assert again.ingest_report.remarks == ()
    more = read_tables(edges("d", "a"), nodes("de", ["dgo", "cat"]), base=base)
    assert more.ingest_report.remarks == (
        "the data frame of nodes: the model knows no class 'dgo' of 'label'; if misspelt, correct it",
    )
    assert more.classes == ("cat", "dog", "dgo")


def test_numbers_that_are_called_codes_are_told(tmp_path):
    columns = {"id": list("abc"), "Clinic ZIP": [10115, 80331, 10115], "area_code": [30, 89, 30], "isic": [1, 2, 1]}
    columns |= {"gzip": [1, 2, 1], "codeine": [1, 2, 1], "bank code": ["A", "B", "A"], "sort code": ["01", "02", "02"]}
    nodes = pa.table(columns)
    read = read_tables(saved(tmp_path, "e.csv", EDGES), nodes)
    said = "the data frame of nodes: '{}' is read as numbers; if they are codes, not amounts: --as {}"
    told = (("Clinic ZIP", "'Clinic ZIP=category'"), ("area_code", "area_code=category"), ("isic", "isic=category"))
    lines = [line for line in read.ingest_report.remarks if "codes, not amounts" in line]
    assert lines == [said.format(*each) for each in told]
    asked = {"types": {"area_code": "number"}, "features": ["area_code"]}
    assert read_tables(tmp_path / "e.csv", nodes, **asked).ingest_report.remarks == ()


def test_values_that_differ_only_by_case_are_told(tmp_path):
    edges = saved(tmp_path, "e.csv", "source,target,carrier\na,b,LH\nb,c,lh\na,b,lh\na,b,AA\n")
    nodes = saved(tmp_path, "n.csv", "id,country\na,US\nb,us\nc,DE\n")
    found = read_tables(edges, nodes, edge_type="carrier")
    assert f"{nodes}: 'country' has 'US' and 'us', which differ only by case, as two values" in found.ingest_report.remarks
    assert f"{edges}: edges have 'LH' and 'lh', which differ only by case, as two kinds" in found.ingest_report.remarks
    # 4 rows are 2 edges: what the lines say adds up.
    assert f"{edges}: 2 rows repeat an edge in another kind; its weights are added" in found.ingest_report.remarks
    (line,) = (line for line in column_lines(found.ingest_report.columns) if "'country'" in line)
    assert "3 values (DE, US, us)" in line


@pytest.mark.parametrize(
    ("edges", "ids"),
    [
        ("a,b\na\u00a0,b\n a , c\n", ["a", "a\u00a0", "b", "c"]),
        ("a,b\n\u2003a,b\n\ta,c\n", ["\ta", "a", "b", "c", "\u2003a"]),
        ("7,8\n7\u00a0,8\n 7 , 9\n", ["7", "7\u00a0", "8", "9"]),
    ],
)
def test_only_spaces_around_ids_do_not_count_and_blanks_alone_are_empty(tmp_path, edges, ids):
    read = read_tables(saved(tmp_path, "e.csv", f"source,target\n{edges}"))
    assert read.graph.ids.tolist() == ids
    with pytest.raises(DataError, match="'source' is empty in row 4"):
        read_tables(saved(tmp_path, "e.csv", f"source,target\n{edges}\u00a0 ,b\n"))


@pytest.mark.parametrize(
    ("name", "begin", "end", "said"),
    [
        ("e.csv", "source,target\na,b\n", ",c\nd,e\n", "a line is longer than a line may be, 2,000,000 bytes"),
        ("e.csv", "source,target\na,b\nc,", "", "its last line is longer than a line may be, 2,000,000 bytes"),
        ("e.jsonl", '{"source": "a", "target": "', '"}\n', "a row is longer than it may be in JSON, 16,777,216 bytes"),
    ],
)
def test_a_cell_that_duckdb_cannot_read_is_named_and_never_left_out(tmp_path, name, begin, end, said):
    with pytest.raises(DataError, match=rf"{name}: (line 3: )?{said}"):
        read_tables(saved(tmp_path, name, begin + "x" * 34_000_000 + end))


def test_a_long_file_of_short_lines_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_header, "_BUFFER_BYTES", csv_header._LONGEST_LINE_BYTES)
    read = read_tables(saved(tmp_path, "e.csv", "source,target\n" + "a,b\n" * 600_000 + "\n\n"))
    assert read.graph.ids.tolist() == ["a", "b"]

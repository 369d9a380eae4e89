"""What is wrong is named in one line with its file, column and row; what is only untidy is read."""

from __future__ import annotations

import gzip
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from clnr.tables.io import csv_header
from tests.tables.files import EDGES, saved, written


@pytest.mark.parametrize(
    ("edges", "nodes", "said"),
    [
        ("source\na\n", None, "e.csv: it has one column"),
        ("source,target\na,b\n,c\n", None, "e.csv: 'source' is empty in row 2"),
        ("source,target,weight\na,b,1\nb,c,nan\n", None, "'weight' is 'nan' in row 2, which is not a weight"),
        ("source,target,weight\na,b,1\nb,c, \n", None, "'weight' is empty in row 2; fill it in"),
        ("source,target,weight\na,b,0\nb,c,0.0\n", None, "e.csv: 'weight' is 0 in all rows, and edges of weight 0 are dropped"),
        ("source,target,source\na,b,c\n", None, "e.csv: it has two columns of the same name, 'source' and 'source'"),
        ("source,target,weight\na,b,1\nb,c,1e39\n", None, "e.csv: 'weight' is '1e39' in row 2, which is not a weight"),
        ("source,target,weight\na,b,3e38\na,b,3e38\n", None, "e.csv: the weights of a repeated edge add up to more"),
        (b"\x00\x01\x02,a\n", None, "e.csv: line 1: it is not text: it holds a zero byte"),
        (EDGES.encode("utf-16")[:-1], None, "e.csv: line 3: it is not text in UTF-16; set its encoding: --encoding"),
        ("source,target,\na,b,\n", None, "e.csv: it has a column without a name"),
        (EDGES, "id,x\na,1\nb,2\na,3\n", "n.csv: node 'a' occurs twice, in rows 1 and 3"),
        (EDGES, "person,to whom\n1,2\n1,3\n", "name another column of ids than 'person'"),
        (EDGES, "id,x\na,1\nz,2\n", "no edge has both its ends in the node table: 'b' is not there"),
        (EDGES, "id,x\na,1\n,2\n", "n.csv: 'id' is empty in row 2"),
        (EDGES, "id,x\n", "n.csv: it has no nodes"),
    ],
)
def test_a_bad_table_is_named_with_its_place(tmp_path, edges, nodes, said):
    with pytest.raises(DataError, match=re.escape(said)):
        read_tables(saved(tmp_path, "e.csv", edges), nodes and saved(tmp_path, "n.csv", nodes))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (__file__, "test_messy.py: its format is unknown"),
        pytest.param("a,b\n" * 2000, "it cannot be read: File name too long", id="the content itself"),
        ("", "a table must be a file or a data frame, not empty text"),
    ],
)
def test_what_is_no_table_is_refused(given, said):
    with pytest.raises(DataError, match=said):
        read_tables(given)


UUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"


@pytest.mark.parametrize(
    ("rows", "wrong", "said"),
    [
        (300_000, b"c\n", "it has 1 column instead of 2"),
        (300_000, b"\xcf\xf0\xe8\xe2\xe5\xf2,c\n", "it is not UTF-8 text"),
        (1000, b'"c,d\n', "a quote is opened and not closed"),
    ],
)
def test_a_line_far_down_is_named(tmp_path, rows, wrong, said):
    path = saved(tmp_path, "e.csv", b"source,target\n" + b"a,b\n" * rows + wrong + b"b,c\n")
    with pytest.raises(DataError, match=f"e.csv: line {rows + 2:,}: {said}"):
        read_tables(path)


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
        ("half.parquet", lambda whole: whole[: len(whole) // 2], "it is not a Parquet file, or is truncated"),
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


def test_a_column_of_words_is_no_weight(tmp_path):
    games = saved(tmp_path, "e.csv", "source,target,winner\na,b,white\nb,c,draw\nc,a,3\n")
    with pytest.raises(DataError, match="'winner' holds no numbers in 2 of 3 rows, such as 'white'"):
        read_tables(games, weight="winner")


def test_a_column_of_the_other_table_is_named_with_its_table(tmp_path):
    ratings = saved(tmp_path, "ratings.csv", "user,film,rating\na,b,5\nb,c,3\nc,a,4\n")
    films = saved(tmp_path, "films.csv", "film,year,genre\na,1,x\nb,2,y\nc,3,x\n")
    for edges, nodes, named, facts in (
        (ratings, films, {"label": "rating"}, ("'rating'", str(ratings), "--edges")),
        (films, ratings, {"weight": "rating"}, ("'rating'", str(ratings), "--nodes")),
        (ratings, None, {"label": "rating"}, ("'rating'", str(ratings), "--nodes is missing")),
        ({("u", "saw", "f"): ratings}, {"f": films}, {"label": "rating"}, ("'rating'", str(ratings))),
        (ratings, films, {"label": "genres"}, ("'genres'", str(films), "'genre'")),
    ):
        with pytest.raises(DataError) as caught:
            read_tables(edges, nodes, **named)
        assert all(fact in str(caught.value) for fact in facts)


# -- untidy -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ("source,target\rq,r\r", ["q", "r"]),
        ("source,target\n\n\na,b\n\n", ["a", "b"]),
        ('source,target\n"a,1","b ""x"""\n', ["a,1", 'b "x"']),
        ('source,target\nx,5" disk\n', ['5" disk', "x"]),
        ("source,target\nC#,b\n#ff,b\n", ["#ff", "C#", "b"]),
        ("# seen\n# today\nsource,target\na,b\n# end\n", ["a", "b"]),
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


def test_numbers_with_fractions_are_texts_and_nan_is_empty():
    assert read_tables(pa.table({"source": [1.5, 2.0], "target": [2.0, 3.0]})).graph.ids.tolist() == ["1.5", "2", "3"]
    for other in (3.0, 3.5):
        with pytest.raises(DataError, match="'source' is empty in row 2"):
            read_tables(pa.table({"source": [1.0, np.nan], "target": [2.0, other]}))


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


def test_so_they_are_beside_an_earlier_graph_and_in_one_of_kinds(tmp_path):
    edges, nodes = saved(tmp_path, "e.csv", EDGES), written(tmp_path, "csv", REPEATED)
    read = read_tables(edges, nodes)
    more = pa.table({"id": ["z", "z", "a"], "x": [7, 7, 9], "note": ["p", "p", ""]})
    extended = read_tables(None, more, base=read)
    assert extended.graph.ids.tolist() == ["c", "a", "b", "z"]
    assert "the data frame of nodes: merged: 1 row repeating a node, alike in all columns" in extended.ingest_report.remarks
    kinds = read_tables({("p", "knows", "p"): edges}, {"p": nodes})
    assert kinds.graph.ids.tolist() == ["p:c", "p:a", "p:b"]
    assert [line for line in kinds.ingest_report.remarks if "merged: 4 rows repeating a node" in line]


def test_rows_beside_a_matrix_do_not_repeat(tmp_path):
    for rows in (3, 7):
        with pytest.raises(
            DataError, match=r"the feature matrix: row i of the matrix is row i of the nodes, .* merged: 4 rows repeating"
        ):
            read_tables(saved(tmp_path, "e.csv", EDGES), written(tmp_path, "csv", REPEATED), feature_matrix=np.eye(rows))


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

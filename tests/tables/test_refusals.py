"""What cannot be read, or contradicts itself, is an error of one line that names what is wrong, and nothing is left of it."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

from clnr.errors import ClnrError
from clnr.tables import read_tables
from tests.tables.files import saved

EDGES = "source,target\na,b\nb,c\nc,a\n"
NODES = pa.table({"id": ["a", "b", "c"], "age": [1.0, 2.5, 9.0], "team": ["x", "y", "x"]})
FILES = {
    "quote.csv": (b'source,target\n"a,b\nb,c\n', ("quote",)),
    "zero.csv": (b"source,target\na\0,b\n", ("line 2", "zero byte")),
    "latin.csv": ("source,target\nü,b\n".encode("latin-1"), ("line 2", "encoding")),
    "twice.csv": (b"source,Source\na,b\n", ("'source'", "'Source'")),
    "empty.csv": (b"", ("empty",)),
    "wide.csv": (b"source,target\na,b,c,d,e\n", ("line 2", "5 columns", "2 are wanted")),
    "far.csv": (b"source,target\n" + b"a,b\n" * 500 + b"a,b,c,d\n", ("line 502", "4 columns", "2 are wanted")),
    "list.json": (b'[{"source": "a"', ("line 1", "not JSON")),
    "numbers.json": (b"[1, 2, 3]", ("named columns",)),
    "short.parquet": (b"PAR1", ("Parquet",)),
    "cut.csv.gz": (gzip.compress(EDGES.encode() * 99)[:-20], ("cannot be read",)),
    "sheet.xlsx": (b"PK", ("Excel", "CSV")),
    "net.gexf": (b"<gexf>", ("GEXF", "networkx")),
    "data.db": (b"SQLite", ("SQLite",)),
    "what.bin": (b"", ("unknown", ".csv")),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong(tmp_path, name):
    content, facts = FILES[name]
    path = saved(tmp_path, name, content)
    with pytest.raises(ClnrError) as refused:
        read_tables(path)
    text = str(refused.value)
    assert all(fact in text for fact in (name, *facts)), text
    assert "\n" not in text
    assert [each.name for each in tmp_path.iterdir()] == [name]


ARGUMENTS = {
    "no such file": ({"edges": "nowhere.csv"}, ("nowhere.csv", "no such file")),
    "a folder": ({"edges": "."}, (".csv",)),
    "a URL": ({"edges": "https://a.b/c.csv"}, ("URL",)),
    "a number": ({"edges": 3}, ("int",)),
    "columns": ({"edges": {"source": ["a"], "target": ["b"]}}, ("list",)),
    "no column": ({"label": "taem"}, ("'taem'", "label", "team")),
    "no type": ({"types": {"age": "money"}}, ("money", "number")),
    "both": ({"features": ["age"], "ignore": ["age"]}, ("age",)),
    "a label that is a feature": ({"label": "team", "features": ["team"]}, ("team",)),
    "no time": ({"until": "day"}, ("until", "day")),
    "unknown ends": ({"unknown_ends": "ask"}, ("ask", "keep")),
    "an encoding": ({"encoding": "punycode"}, ("punycode",)),
    "text as a flag": ({"directed": "yes"}, ("directed",)),
    "three parts": ({"edges": {("a", "b"): NODES}}, ("a,b",)),
    "kinds without edges": ({"nodes": {"user": NODES}}, ("user",)),
    "a second statement": ({"edges": "SELECT 1 AS source, 2 AS target; DROP TABLE x"}, ("SELECT",)),
    "a writing query": ({"edges": "WITH x AS (COPY (SELECT 1) TO 'out.csv') SELECT 1"}, ()),
    "another reader": ({"edges": "SELECT * FROM duckdb_settings()"}, ("duckdb_settings",)),
    "a device": ({"edges": "SELECT * FROM read_csv('/dev/zero')"}, ("/dev/zero", "pipe or a device")),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_wrong_argument_is_named(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    given, facts = ARGUMENTS[case]
    edges = saved(tmp_path, "edges.csv", EDGES)
    with pytest.raises(ClnrError) as refused:
        read_tables(**{"edges": edges, "nodes": NODES} | given)
    assert all(fact in str(refused.value) for fact in facts), str(refused.value)
    assert [each.name for each in tmp_path.iterdir()] == ["edges.csv"]


def test_a_misspelt_argument_is_a_type_error():
    with pytest.raises(TypeError, match="did you mean 'label'"):
        read_tables(pa.table({"source": ["a"], "target": ["b"]}), lable="x")


def test_names_of_columns_and_kinds_are_never_sql(tmp_path):
    hostile = 'a"; DROP TABLE edges; --'
    nodes = pa.table({hostile: ["a", "b", "c"], "x'y": [1.0, 2.5, 9.0], "two\nlines": ["u", "v", "u"]})
    graph = read_tables(saved(tmp_path, "e.csv", EDGES), nodes, id=hostile)
    assert [each.column for each in graph.info.columns if each.table == "nodes"] == nodes.column_names
    kinds = {("us'er", 'bo"ught', "item"): pa.table({"source": ["1"], "target": ["2"]})}
    assert read_tables(kinds).ids.tolist() == ["item:2", "us'er:1"]


def test_thousands_of_columns_are_read():
    columns = {f"x{i}": [float(i), float(i + 2), 0.5] for i in range(1_000)}
    nodes = pa.table({"id": ["a", "b", "c"]} | columns)
    assert read_tables(pa.table({"source": ["a", "b"], "target": ["b", "c"]}), nodes).num_features == 1_000

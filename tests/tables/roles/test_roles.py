"""How each column was read, and how a user changes it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from clnr.tables.table_graph import TableInfo
from tests.tables.files import columns_of, saved

NODES = """id,age,zip,serial no,about,when,same
a,30,1000,7,the bread,2020-01-01,x
b,40,1000,9,the mill,,x
c,31,2000,8,a,2021-01-01,x
"""


@pytest.fixture
def tables(tmp_path):
    return saved(tmp_path, "e.csv", "source,target,year\na,b,1999\nb,c,2000\n"), saved(tmp_path, "n.csv", NODES)


def test_a_user_says_what_is_a_feature_and_as_what(tables):
    assert columns_of(read_tables(*tables, features=["Zip", "age"])) == {"age": "number", "zip": "number"}
    assert columns_of(read_tables(*tables, features=["zip,age"])) == {"age": "number", "zip": "number"}
    assert columns_of(read_tables(*tables, features=["id"])) == {"id": "category"}
    assert columns_of(read_tables(*tables, ignore=["age,when", "zip"])) == {"about": "category"}
    wanted = {"zip": "category", "serial no": "number", "about": "text", "age": "id", "when": "date", "id": "category"}
    expected = {"id": "category", "zip": "category", "serial no": "number", "about": "text", "when": "datetime"}
    read = read_tables(*tables, types=wanted)
    assert columns_of(read) == expected
    x = read.graph.features.toarray()
    assert x[:, 3:5].tolist() == [[1, 0], [1, 0], [0, 1]]
    assert np.allclose(x[:, 5], (np.array([7, 9, 8]) - 8) / np.std([7, 9, 8]), atol=1e-6)
    assert read.feature_encoder.dropped["age"] == "it is an id"


def test_a_column_is_bool_if_told(tmp_path):
    nodes = saved(tmp_path, "n.csv", "id,vip\na,yes\nb,unknown\nc,no\n")
    read = read_tables(saved(tmp_path, "e.csv", "source,target\na,b\nb,c\n"), nodes, types={"vip": "bool"})
    assert read.graph.features.tolist() == [[1, 0], [0, 1], [0, 0]]


def test_an_earlier_encoder_decides_what_features_are(tables):
    read = read_tables(*tables)
    for more in ({"base": read}, {"feature_encoder": read.feature_encoder}):
        with pytest.raises(DataError, match=r"the earlier feature encoder decides how columns are read: leave out --features"):
            read_tables(*tables, features=["age"], **more)


@pytest.mark.parametrize(
    ("column", "values", "used"),
    [
        ("x", [3, 1, 2], True),
        ("user_id", [3, 1, 2], False),
        ("User ID", [3, 1, 2], False),
        ("user_id", [3, 1, None], True),
        ("user_id", [0.5, 1, 2], True),
        ("humid", [3, 1, 2], True),
        ("x", list(range(25)), False),
        ("x", [i * i for i in range(25)], True),
        ("x", [i * i for i in range(100)], False),
    ],
)
def test_distinct_whole_numbers_are_ids_where_that_is_likely(column, values, used):
    """In a large table, if they count the rows, or if they are called so."""
    nodes = pa.table({"id": [f"n{i}" for i in range(len(values))], column: values})
    read = read_tables(pa.table({"source": ["n0"], "target": ["n1"]}), nodes)
    assert (column in columns_of(read)) == used


def test_columns_are_saved_with_the_graph(tables, tmp_path):
    read = read_tables(*tables, types={"zip": "category"})
    ingest(*tables, types={"zip": "category"}, out=tmp_path / "graph", memory="1 GB")
    assert load_graph_folder(tmp_path / "graph").feature_encoder == read.feature_encoder
    saved_info = json.loads(TableInfo(read.feature_encoder, (), read.ingest_report).to_json())
    for wrong in ([7], [{"table": "x"}], [{**read.ingest_report.columns[0]._asdict(), "features": -1}]):
        saved_info["findings"]["columns"] = wrong
        with pytest.raises((DataError, TypeError)):
            TableInfo.from_json(json.dumps(saved_info))


def test_a_graph_is_extended_by_columns_in_the_roles_that_they_had():
    mails = pa.table({"sent": ["x", "y"], "kind": ["mail", "mail"], "sender": ["a", "b"], "recipient": ["b", "c"]})
    staff = pa.table(
        {"name": ["Ann", "Bo", "Cy"], "number": ["a", "b", "c"], "team": ["red", "blue", "red"], "age": [1.5, 2.5, 4.0]}
    )
    first = read_tables(mails, staff, source="sender", target="recipient", id="number", label="team")
    more = pa.table({"sent": ["z"], "kind": ["chat"], "sender": ["c"], "recipient": ["d"]})
    new = pa.table({"name": ["Di"], "number": ["d"], "team": ["blue"], "age": [2.0]})
    read = read_tables(more, new, base=first)
    assert read.graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert read.graph.labels.tolist() == [*first.graph.labels.tolist(), first.graph.labels[1]]
    again = read_tables(pa.table({"sender": ["d"], "x": ["?"], "recipient": ["a"]}), base=read_tables(more, base=first))
    assert again.graph.node_ids.tolist() == ["a", "b", "c", "d"]
    # As pandas reads a header with blanks after its commas.
    blank = read_tables(pa.table({"when": ["?"], " Sender": ["c"], " recipient": ["a"]}), base=first)
    assert (blank.graph.num_nodes, blank.graph.num_edges) == (3, 6)
    other = read_tables(pa.table({"sender": ["a"], "recipient": ["?"], "boss": ["c"]}), target="boss", base=first)
    assert other.graph.num_nodes == 3

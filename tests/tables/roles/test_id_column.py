"""The ids of a node table are in the column whose values are ends of edges, whatever it is called."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from tests.tables.files import columns_of, saved

AIRPORTS = """name,city,code,height
Orly,Paris,ORY,89
Heathrow,London,LHR,25
Gatwick,London,LGW,62
Kastrup,Copenhagen,CPH,5
Barajas,Madrid,MAD,610
"""
FLIGHTS = "source,target\nORY,LHR\nLHR,CPH\nCPH,MAD\nMAD,ORY\nLGW,MAD\n"


def ids_of(read):
    return [info.column for info in read.ingest_report.columns if "id" in info.role.split(" and ")]


def notes_of(read):
    return [line for line in read.ingest_report.remarks if "ends of edges" in line]


def test_a_code_beside_a_name(tmp_path):
    """The column that is called as ids often are has none of them."""
    edges, nodes = saved(tmp_path, "e.csv", FLIGHTS), saved(tmp_path, "n.csv", AIRPORTS)
    read = read_tables(edges, nodes)
    assert read.graph.ids.tolist() == ["ORY", "LHR", "LGW", "CPH", "MAD"]
    assert (read.graph.num_edges, ids_of(read), read.ingest_report.names) == (10, ["code"], "name")
    assert "code" not in columns_of(read)
    assert notes_of(read) == [f"{nodes}: ids are read from 'code': it has 100% of the ends of edges, 'name' has 0%"]
    ingest(edges, nodes, out=tmp_path / "graph")
    folder = load_graph_folder(tmp_path / "graph")
    assert (folder.graph.digest, folder.ingest_report) == (read.graph.digest, read.ingest_report)
    more = read_tables(
        saved(tmp_path, "more.csv", "source,target\nORY,TXL\n"), saved(tmp_path, "new.csv", "name,code\nTegel,TXL\n"), base=read
    )
    assert more.graph.ids.tolist()[-1] == "TXL"


def test_a_repeated_row_does_not_hide_it(tmp_path):
    nodes = saved(tmp_path, "n.csv", f"{AIRPORTS}Gatwick,London,LGW,62\n")
    read = read_tables(saved(tmp_path, "e.csv", FLIGHTS), nodes)
    assert (read.graph.ids.tolist(), ids_of(read)) == (["ORY", "LHR", "LGW", "CPH", "MAD"], ["code"])


def test_of_each_kind_of_nodes(tmp_path):
    edges = {("airline", "serves", "airport"): saved(tmp_path, "e.csv", "airline,airport\n1,ORY\n2,LHR\n3,MAD\n1,CPH\n2,LGW\n")}
    lines = saved(tmp_path, "l.csv", "name,fleet,number\nAF,200,1\nBA,300,2\nIB,150,3\n")
    read = read_tables(edges, {"airline": lines, "airport": saved(tmp_path, "n.csv", AIRPORTS)})
    assert ids_of(read) == ["number", "code"]
    assert read.graph.num_edges == 10
    assert len(notes_of(read)) == 2


@pytest.mark.parametrize(
    ("columns", "taken", "note"),
    [
        ({"id": [1, 2, 3, 4], "rank": [9, 8, 7, 6]}, "id", None),
        ({"id": [1, 2, 3, 9], "age": [1, 2, 3, 4]}, "id", "'id': it has 83% {}, 'age' has 100%; to use that: --id 'age'"),
        ({"id": [1, 2, 3, 4], "row": [0, 1, 2, 3]}, "id", None),
        ({"row": [0, 1, 2, 3], "nr": [1, 2, 3, 4]}, "row", "'row': it has 83% {}, 'nr' has 100%; to use that: --id 'nr'"),
        ({"one": [1, 2, 3, 4], "two": [2, 3, 4, 1]}, "one", "'one': it has 100% {}, 'two' has 100%"),
        ({"row": [100, 101, 102, 103], "nr": [1.0, 2.0, 3.0, 4.0]}, "nr", "'nr': it has 100% {}, 'row' has 0%"),
        ({"row": [100, 101, 102, 103], "half": [1, 2, 50, 51]}, "half", "'half': it has 50% {}, 'row' has 0%"),
        ({"row": [3, 4, 102, 103], "twice": [1, 2, 3, 3]}, "row", None),
        ({"row": ["1", "2", "3", "x"], "list": [[1], [2], [3], [4]]}, "row", None),
    ],
)
def test_which_column_it_is_and_what_is_said(columns, taken, note):
    edges = pa.table({"source": [1, 2, 3], "target": [2, 3, 4]})
    nodes = pa.table(columns | {"x": ["a", "b", "a", "b"]})
    read = read_tables(edges, nodes)
    assert ids_of(read) == [taken]
    assert len(notes_of(read)) == (note is not None)
    assert note is None or note.format("of the ends of edges") in notes_of(read)[0]
    assert notes_of(read_tables(edges, nodes, id=taken)) == []


def test_what_the_user_says_of_columns_counts(tmp_path):
    edges, nodes = saved(tmp_path, "e.csv", FLIGHTS), saved(tmp_path, "n.csv", AIRPORTS)
    more = saved(tmp_path, "m.csv", "name,a,b\nORY,LHR,1\nLHR,CPH,2\nLGW,ORY,3\nCPH,MAD,4\nMAD,LGW,5\n")
    assert ids_of(read_tables(edges, more)) == ["name"]
    assert ids_of(read_tables(edges, more, id="a")) == ["a"]
    assert ids_of(read_tables(edges, nodes, ignore=["name"])) == ["code"]
    for asked in ({"features": ["code", "city"]}, {"ignore": ["code"]}, {"label": "code"}, {"types": {"code": "category"}}):
        with pytest.raises(DataError, match="no edge has an id of the node table"):
            read_tables(edges, nodes, **asked)


def test_empty_ids_are_those_of_the_column_that_was_found(tmp_path):
    edges, nodes = saved(tmp_path, "e.csv", FLIGHTS), saved(tmp_path, "n.csv", AIRPORTS + "Nowhere,None,,1\n")
    with pytest.raises(DataError, match=r"n\.csv: 'code' is empty in row 6; "):
        read_tables(edges, nodes)


def test_a_large_table_by_its_first_rows(monkeypatch):
    """A sample of edges and of nodes is enough, and shares are of it."""
    from clnr.tables.roles import id_column

    monkeypatch.setattr(id_column, "_EDGE_ROWS", 500)
    monkeypatch.setattr(id_column, "_NODE_ROWS", 100)
    rng = np.random.default_rng(0)
    keys = np.array([f"k{i}" for i in rng.permutation(2000)])
    edges = pa.table({"source": rng.choice(keys, 5000), "target": rng.choice(keys, 5000)})
    nodes = pa.table({"name": [f"n{i}" for i in range(2000)], "x": rng.random(2000), "key code": keys})
    read = read_tables(edges, nodes)
    assert ids_of(read) == ["key code"]
    assert "it has 100% of the ends of edges, 'name' has 0%" in notes_of(read)[0]


def test_a_query_without_rows_has_no_ends():
    nodes = pa.table({"code": ["a", "b"], "key": ["x", "y"]})
    with pytest.raises(DataError, match="it has no edges"):
        read_tables(edges="SELECT 'a' AS source, 'b' AS target WHERE false", nodes=nodes)


def test_ids_that_are_written_in_another_way_are_still_those_of_their_column(tmp_path):
    """The error names that column and what differs, not the first column of distinct numbers."""
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    nodes.write_text("number,iban,x\n" + "".join(f"{100 + i},DE{i:02} 8740 {i:04},{i * i % 7}\n" for i in range(40)))
    edges.write_text(
        "source,target\n" + "".join(f"DE{i:02}8740{i:04},DE{(i + 1) % 40:02}8740{(i + 1) % 40:04}\n" for i in range(40))
    )
    with pytest.raises(DataError, match=r"no edge has an id .* in 'iban'; 40 unknown ids would match the node table if"):
        read_tables(edges, nodes)


def test_a_column_that_repeats_one_id_is_not_that_of_many(tmp_path):
    """Each row has the number of the congress, which is also that of a vote."""
    votes = "".join(f"{member},{vote}\n" for vote in range(1, 40) for member in ("ann", "bob"))
    rows = "".join(f"18,House,{vote},1\n" for vote in range(1, 61))
    edges = {("member", "voted", "rollcall"): saved(tmp_path, "e.csv", f"member,rollnumber\n{votes}")}
    nodes = {"rollcall": saved(tmp_path, "n.csv", f"congress,chamber,rollnumber,size\n{rows}")}
    read = read_tables(edges, nodes, source="member", target="rollnumber")
    assert (ids_of(read), read.graph.num_nodes) == (["rollnumber"], 62)

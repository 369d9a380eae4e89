"""The ids of a node table are in the column whose values are ends of edges, whatever it is called."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clnr.tables import read_tables
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
    more = read_tables(
        saved(tmp_path, "more.csv", "source,target\nORY,TXL\n"), saved(tmp_path, "new.csv", "name,code\nTegel,TXL\n"), base=read
    )
    assert more.graph.ids.tolist()[-1] == "TXL"


@pytest.mark.parametrize(
    ("columns", "taken", "note"),
    [
        ({"id": [1, 2, 3, 4], "rank": [9, 8, 7, 6]}, "id", None),
        ({"id": [1, 2, 3, 9], "age": [1, 2, 3, 4]}, "id", "'id': it has 83% {}, 'age' has 100%; to use that: --id age"),
        ({"id": [1, 2, 3, 4], "row": [0, 1, 2, 3]}, "id", None),
        ({"row": [0, 1, 2, 3], "nr": [1, 2, 3, 4]}, "row", "'row': it has 83% {}, 'nr' has 100%; to use that: --id nr"),
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

"""A table of nodes that is given for one of edges is recognised where no name tells; a real table of edges is not refused."""

from __future__ import annotations

import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from tests.tables.files import saved

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

STAFF = "staff no,full name,team\n" + "".join(f"{7 * i},Person {i % 19},T{i % 3}\n" for i in range(30))
NODES = {
    "numbers and names": STAFF,
    "a sort for each": "who,sort\n" + "".join(f"P{i},{'wo' * (i % 2)}man\n" for i in range(12)),
    "dates": "hired,team\n2020-01-01,1\n2020-01-02,2\n",
    "fractions": "depth,size\n1,0.5\n2,1\n",
}
EDGES = {
    "users and items": "user,item\n" + "".join(f"{i // 2},B{i % 7}\n" for i in range(30)),
    "a child and its parent": "child,parent\n" + "".join(f"{i},{i // 2}\n" for i in range(1, 30)),
    "a path": "a,b\n" + "".join(f"P{i},P{i + 1}\n" for i in range(30)),
    "a few pairs": "a,b\n1,2\n3,4\n",
    "whole numbers as pandas writes them": "a,b\n1.0,2.0\n2.0,3.0\n",
    "named": "source,target\n" + STAFF.partition("\n")[2].replace(",T", "-T"),
}


@pytest.mark.parametrize("text", NODES.values(), ids=NODES)
def test_a_table_of_nodes_is_recognised_by_its_values(tmp_path, text):
    a, b = text.splitlines()[0].split(",")[:2]
    path = saved(tmp_path, "t.csv", text)
    with pytest.raises(DataError, match=r"t\.csv: it (may be|looks like) a table of nodes: .*--nodes .*--source.*--target"):
        read_tables(path, header=True)
    assert read_tables(path, source=a, target=b).ingest_report.rows == len(text.splitlines()) - 1


@pytest.mark.parametrize("text", EDGES.values(), ids=EDGES)
def test_a_table_of_edges_is_read(tmp_path, text):
    found = read_tables(saved(tmp_path, "t.csv", text))
    assert found.ingest_report.rows == len(text.splitlines()) - 1
    two_sorts = [line for line in found.ingest_report.remarks if "share no id, so edges link nodes of two sorts" in line]
    assert len(two_sorts) == text.startswith("user,item")
    assert all("to tell these apart: --edges user,NAME,item=FILE" in line for line in two_sorts)


def test_a_membership_with_all_its_nodes_is_read():
    """The node table says that both columns have nodes."""
    people, groups = [f"p{i}" for i in range(12)], ["g0", "g1"] * 6
    nodes = pa.table({"id": [*people, "g0", "g1"], "x": list(range(14))})
    members = pa.table({"person": people, "group": groups})
    assert read_tables(members, nodes).graph.num_edges == 24
    with pytest.raises(DataError, match="it may be a table of nodes: each row has another 'person'"):
        read_tables(members)


@pytest.mark.parametrize(
    ("names", "numbers", "told"),
    [("user,item", True, True), ("citing,cited", True, False), ("user,item", False, False), ("a,b", True, False)],
)
def test_two_columns_of_unlike_names_that_share_numbers_are_told(tmp_path, names, numbers, told):
    rows = [(i % 5, (3 * i) % 7) for i in range(20)]
    lines = (f"{i},{j}" if numbers else f"n{i},n{j}" for i, j in rows)
    path = saved(tmp_path, "t.csv", "\n".join([names, *lines, ""]))
    notes = [line for line in read_tables(path, header=True).ingest_report.remarks if "is one node" in line]
    assert len(notes) == told
    if told:
        assert "--edges user,NAME,item=FILE" in notes[0]

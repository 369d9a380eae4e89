"""Edges that are left out, and nodes of two sorts: what is told."""

from __future__ import annotations

import pytest

from clnr.embedding.planning.graph_facts import table_warnings
from clnr.errors import DataError
from clnr.tables import ingest, load_graph_folder, read_tables
from clnr.tables.ingest_report import dangling_warning, loses_much
from tests.tables.files import saved

PACKAGES = "id,x\ntorch,1\nscikit-learn,2\nnumpy,4\nzope.interface,8\n"
ALIKE = "if case, blanks, - _ . :, leading zeros and a final .0 were ignored, such as"
EQUAL = "make them equal by a query, such as lower(name)"
ORDERS = "user,item\n1,1\n2,1\n3,2\n4,2\n5,1\n6,2\n"


def lines(read):
    return [line for line in table_warnings(read) if "left out" in line]


def packages(tmp_path, *edges):
    rows = "".join(f"{edge}\n" for edge in edges)
    return read_tables(saved(tmp_path, "e.csv", f"source,target\n{rows}"), saved(tmp_path, "n.csv", PACKAGES))


def test_a_few_are_a_line_and_many_a_warning(tmp_path):
    kept = ["torch,numpy", "numpy,scikit-learn", "numpy,zope.interface"]
    (few,) = lines(packages(tmp_path, *kept, "numpy,hatch"))
    assert few == "left out: 1 edge of 4 with an end that is not in the node table, such as 'hatch'"
    read = packages(tmp_path, *kept, "numpy,hatch", "hatch,pip")
    (many,) = lines(read)
    assert many.startswith("warning: left out: 2 edges of 5 (40%) with an end")
    assert loses_much(read.ingest_report)
    (explained,) = lines(packages(tmp_path, *kept, "numpy,Torch"))
    assert explained.startswith("warning: left out: 1 edge of 4 (25%) with an end")


def test_ids_that_are_written_in_another_way_are_counted(tmp_path):
    read = packages(
        tmp_path, "torch,numpy", "Torch,numpy", "numpy,scikit_learn", "TORCH,Zope-Interface", "hatch,Torch", "numpy,pip"
    )
    (line,) = lines(read)
    assert "left out: 5 edges of 6 (83%)" in line
    assert f"4 unknown ids would match the node table {ALIKE} 'TORCH' and 'torch'; {EQUAL}" in line
    (line,) = lines(packages(tmp_path, "torch,numpy", "torch\u00a0,numpy"))
    assert r"such as 'torch\xa0' and 'torch'" in line
    with pytest.raises(DataError, match=r"no edge has an id of the node table: .*; 2 unknown ids would match"):
        packages(tmp_path, "Torch,NumPy", "hatch,pip")
    with pytest.raises(
        DataError, match="no edge has both its ends in the node table: 'NumPy' is not there; 1 unknown id would match"
    ):
        packages(tmp_path, "torch,NumPy")


@pytest.mark.parametrize("kinds", [False, True])
@pytest.mark.parametrize(("given", "right"), [("7", "007"), ("7.0", "7"), (" a B", "ab")])
def test_leading_zeros_and_what_spreadsheets_add_are_told(tmp_path, given, right, kinds):
    edges = saved(tmp_path, "e.csv", f"source,target\nx,y\ny,{given}\n")
    nodes = saved(tmp_path, "n.csv", f"id,age\nx,1\ny,2\n{right},4\n")
    of = "p:" if kinds else ""
    (line,) = lines(read_tables(*(({("p", "met", "p"): edges}, {"p": nodes}) if kinds else (edges, nodes))))
    assert line.endswith(f"1 unknown id would match the node table {ALIKE} '{of}{given.strip()}' and '{of}{right}'; {EQUAL}")


def test_ids_of_new_edges_that_lost_their_zeros_are_told_as_others_are(tmp_path):
    base = read_tables(saved(tmp_path, "e.csv", "source,target\n00123,00007\n00007,12345\n"))
    said = f"{{}} would match the earlier graph {ALIKE} '{{}}; {EQUAL}"
    lost = saved(tmp_path, "lost.csv", "source,target\n123,7\n7,500\n")
    warning, hint = read_tables(lost, base=base).ingest_report.remarks
    assert warning.startswith(f"warning: {lost}: none of its edges")
    assert hint == f"{lost}: " + said.format("2 unknown ids", "123' and '00123'")
    some = saved(tmp_path, "some.csv", "source,target\n12345,7\n")
    line = said.format("1 unknown id", "7' and '00007'")
    assert read_tables(some, base=base).ingest_report.remarks == (f"{some}: {line}",)
    right = saved(tmp_path, "right.csv", "source,target\n12345,00007\n12345,500\n")
    assert not any("would match" in line for line in read_tables(right, base=base).ingest_report.remarks)


def test_kinds_of_nodes_that_look_swapped_are_named(tmp_path):
    edges = {("user", "bought", "item"): saved(tmp_path, "e.csv", ORDERS)}
    users = saved(tmp_path, "users.csv", "id,age\n" + "".join(f"{i},{20 + i}\n" for i in range(1, 7)))
    items = saved(tmp_path, "items.csv", "id,price\n1,3\n2,4\n")
    assert not lines(read_tables(edges, {"user": users, "item": items}))
    (line,) = lines(read_tables(edges, {"user": items, "item": items}))
    assert "swapped" not in line
    wrong = {"user": items, "item": users}
    (line,) = lines(read_tables(edges, wrong))
    assert "left out: 4 edges of 6 (67%)" in line
    assert "the tables of 'user' and 'item' look swapped: with them exchanged, most of these edges would be kept" in line
    ingest(edges, wrong, out=tmp_path / "graph")
    report = load_graph_folder(tmp_path / "graph").ingest_report
    assert f"warning: {dangling_warning(report)}" == line

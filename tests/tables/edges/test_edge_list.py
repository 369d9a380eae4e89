"""Edges that are left out, and nodes of two sorts: what is told."""

from __future__ import annotations

from clnr.embedding.graph_facts import table_warnings
from clnr.tables import read_tables
from clnr.tables.ingest_report import loses_much
from tests.tables.files import saved

PACKAGES = "id,x\ntorch,1\nscikit-learn,2\nnumpy,4\nzope.interface,8\n"


def lines(read):
    return [line for line in table_warnings(read.graph, read.info) if "left out" in line]


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

"""Edges that are left out, and nodes of two sorts: what is told."""

from __future__ import annotations

import pytest

from clnr.embedding.planning.graph_facts import table_warnings
from clnr.errors import DataError
from clnr.tables import read_tables
from clnr.tables.ingest_report import loses_much
from tests.tables.files import saved

PACKAGES = "id,x\ntorch,1\nscikit-learn,2\nnumpy,4\nzope.interface,8\n"
ALIKE = "if case, blanks, - _ . :, leading zeros and a final .0 were ignored, such as"
EQUAL = "make them equal by a query, such as lower(name)"


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

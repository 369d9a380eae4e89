"""Whether a first line is a header: by its names, by the lines below, or as the user says."""

from __future__ import annotations

import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from tests.tables.files import saved

HEADERS = [
    "citing,cited\n1,2\n2,3\n",
    "id_1\tid_2\n1\t2\n2\t3\n",
    "a,b,year\n1,2,1999\n2,3,2001\n",
    "a,b,when\nx,y,2001-02-03\ny,z,2001-02-04\n",
    "a,b,when\nx,y,2001-02-03 10:00\ny,z,2001-02-04 11:30:05\n",
    "buyer,seller\nu_1,u_2\nu_2,u_3\n",
    "Target Person,Source Person\n-1,2\n2,3.0\n",
]
ROWS = [
    "1,2\n2,3\n",
    "1 2 0.5\n2 3 0.25\n",
    "a,b\nb,c\n",
    "a,1\nb,2\n",
    "x,x\ny,z\n",
    "a,b",
    "n1,n2,1082040961\nn2,n3,1082155839\n",
]
DOUBTFUL = ["buyer,seller\nann,bob\nbob,cy\n", "n1,1\n5,2\n6,3\n", "a,b,year\na,c,1999\nc,b,2000\n"]


@pytest.mark.parametrize("text", HEADERS)
def test_text_above_numbers_and_codes_is_a_header(tmp_path, text):
    found = read_tables(saved(tmp_path, "e.csv", text))
    assert found.ingest_report.rows == 2
    assert [column.column for column in found.ingest_report.columns] == text.splitlines()[0].replace("\t", ",").split(",")
    assert found.graph.incoming.weight is None
    bare = read_tables(tmp_path / "e.csv", header=False)
    assert bare.ingest_report.rows == 3
    assert bare.ingest_report.remarks == ()


@pytest.mark.parametrize("text", ROWS)
def test_a_first_line_like_the_others_is_a_row(tmp_path, text):
    found = read_tables(saved(tmp_path, "e.csv", text))
    assert found.ingest_report.rows == len(text.splitlines())
    assert "read as an edge" in found.ingest_report.remarks[0]
    # Weights are columns that are called so, or named.
    assert found.graph.incoming.weight is None


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_may_be_either_is_refused_until_it_is_said(tmp_path, text):
    path = saved(tmp_path, "e.csv", text)
    said = rf"e\.csv: its first line, '{text.splitlines()[0]}', may be a header or an edge; .*--no-header"
    with pytest.raises(DataError, match=said):
        read_tables(path)
    rows = len(text.splitlines())
    assert [read_tables(path, header=each).ingest_report.rows for each in (True, False)] == [rows - 1, rows]
    assert read_tables(path, source=text.partition(",")[0]).ingest_report.rows == rows - 1


def test_a_weight_is_named_in_a_file_without_a_header(tmp_path):
    path = saved(tmp_path, "e.txt", "1 2 0.5\n2 3 0.25\n")
    assert read_tables(path, weight="column 3").graph.edges()[2].tolist() == [0.5, 0.5, 0.25, 0.25]

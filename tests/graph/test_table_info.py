"""How tables became a graph comes back from JSON as it was, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clnr.errors import DataError
from clnr.graph.table_info import ColumnInfo, TableInfo
from clnr.support.storage import errors_name

INFO = TableInfo(
    columns=(ColumnInfo("edges", "a", "source"), ColumnInfo("nodes", "Größe", "feature", "number", "scaled", 1, 3)),
    classes=("x", "y"),
    names="title",
    directed=True,
    node_kinds=("user", "item"),
    edge_kinds={"bought": 0.5},
    counts={"rows": 7, "loops": 0},
    notes=("warning: a line",),
    encoder={"columns": [], "unused": {}, "structure": None, "matrix": None},
    unused="1 title",
)


@pytest.mark.parametrize("info", [INFO, TableInfo()])
def test_it_comes_back_as_it_was(info):
    assert TableInfo.from_json(info.to_json().decode()) == info


@pytest.mark.parametrize(
    "change",
    [
        {"form": 1},
        {"columns": [["edges", "a", "source"]]},
        {"columns": [INFO.columns[0]._asdict() | {"column": 5}]},
        {"columns": [INFO.columns[0]._asdict() | {"features": -1}]},
        {"columns": [INFO.columns[0]._asdict() | {"empty": 0.5}]},
        {"classes": None},
        {"names": 5},
        {"edge_kinds": {"bought": 0}},
        {"counts": {"rows": -1}},
        {"encoder": []},
        {"notes": ["\ud800"]},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(change):
    content = json.loads(INFO.to_json()) | change
    with pytest.raises(DataError, match=r"^tables\.json: "), errors_name(Path("tables.json")):
        TableInfo.from_json(json.dumps(content))


def test_a_label_is_called_by_its_class_or_number_and_its_column():
    assert [INFO.class_name(label) for label in (0, 1, 2)] == ["x", "y", "2"]
    of_column = TableInfo(columns=(ColumnInfo("nodes", "field", "label"),))
    assert (INFO.label_column, of_column.label_column) == ("label", "field")

"""Many columns are read by few queries, and each as if it were alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import FeatureEncoder, load, read_tables
from clnr.tables.io import sql
from clnr.tables.io.source import describe, store
from clnr.tables.roles.described_columns import type_warnings

EDGES = pa.table({"source": ["0", "1"], "target": ["1", "2"]})
ROWS = 60


@pytest.fixture
def queries(monkeypatch):
    """What was asked of DuckDB so far; progress is told at once."""
    monkeypatch.setattr("clnr.tables.table_driver.NowAndThen.due", lambda self: True)
    asked = []
    guarded = sql._guarded
    monkeypatch.setattr(sql, "_guarded", lambda query, name: asked.append(name) or guarded(query, name))
    return asked


def mixed(copies):
    """Columns of all sorts, so many of each."""
    rng = np.random.default_rng(0)
    day = [f"2020-{1 + r % 12:02}-{1 + r % 28:02}" for r in range(ROWS)]
    made = {}
    for copy in range(copies):
        numbers = rng.normal(size=ROWS)
        sorts = {
            "float": numbers,
            "text": [f"{x:.3f}" for x in numbers],
            "gaps": [None if r % 7 == 0 else f"{x * 10**copy:.3g}" for r, x in enumerate(numbers)],
            "integer": rng.integers(0, 9, ROWS),
            "counted": np.arange(ROWS),
            "same": ["x"] * ROWS,
            "empty": [""] * ROWS,
            "day": day,
            "german day": [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in day],
            "comma": [f"{x:.3f}".replace(".", ",") for x in numbers],
            "truth": rng.choice(["yes", "no"], ROWS),
            "bool": rng.random(ROWS) < 0.5,
            "color": rng.choice(["red", "blue", "green", "7"], ROWS),
            "code": [f"0{r % 5}{copy}" for r in range(ROWS)],
            "many": [f"value{r // 2}" if r < 50 else f"other{r}" for r in range(ROWS)],
            "words": [f"some words {r} and {r % 3}" for r in range(ROWS)],
            "tags": ["|".join(rng.choice(["a", "b", "c"], 2)) for _ in range(ROWS)],
            "list": pa.array(rng.normal(size=(ROWS, 2)).tolist()),
            "mostly numbers": ["lots" if r == 3 else str(r % 9) for r in range(ROWS)],
        }
        made |= {f"{sort} {copy}": values for sort, values in sorts.items()}
    return pa.table({"id": [str(r) for r in range(ROWS)], **made})


def test_each_column_is_read_as_if_it_were_alone(db):
    db.register("given", mixed(2))
    table = store(db, describe(db, "nodes", "given"), "t")
    together = FeatureEncoder.fit(db, table, list(table.columns))
    alone = [FeatureEncoder.fit(db, table, [column]) for column in table.columns]
    assert together.column_encoders == tuple(encoder for each in alone for encoder in each.column_encoders)
    assert together.dropped == {column: why for each in alone for column, why in each.dropped.items()}
    assert {encoder.kind for encoder in together.column_encoders} == {
        *("number", "datetime", "bool", "category", "text", "tags", "vector"),
    }
    notes = type_warnings(db, table, together.column_encoders)
    assert notes == [line for each in together.column_encoders for line in type_warnings(db, table, [each])]
    assert sum("mostly numbers" in line for line in notes) == 2


@pytest.mark.parametrize("values", ["{:.4f}", "value{:.0f}"])
def test_many_columns_are_read_by_few_queries(queries, values):
    counts, lines = [], []
    for columns in (20, 120):
        numbers = np.random.default_rng(0).normal(size=(columns, 30))
        made = {f"x{i}": list(map(values.format, row)) for i, row in enumerate(numbers)}
        ends = {end: [str(r) for r in range(30)] for end in ("source", "target")}
        queries.clear()
        read_tables(pa.table(ends | made), pa.table({"id": ends["source"], **made}), progress=lines.append)
        counts.append(len(queries))
    assert counts[0] == counts[1] < 70
    assert lines[-1] == "the data frame of nodes: 120 of 120 columns are read"


def test_a_table_without_rows_has_answers(db):
    table = store(db, describe(db, "nodes", "(SELECT '' AS a, '' AS b WHERE false)"), "t")
    assert FeatureEncoder.fit(db, table, ["a", "b"]).dropped == {"a": "it is empty", "b": "it is empty"}


def test_a_table_of_too_many_columns_is_refused_with_another_way(monkeypatch):
    monkeypatch.setattr(load, "_MOST_COLUMNS", 3)
    nodes = pa.table({"id": ["0"], "a": [1], "b": [2], "c": [3]})
    with pytest.raises(DataError, match=r"it has 4 columns, and a table may have 3; .*matrix.*--nodes"):
        read_tables(EDGES, nodes)
    with pytest.raises(DataError, match=r"4 columns.*; a query selects some: --edges"):
        read_tables(nodes.rename_columns(["source", "target", "b", "c"]))

"""Fields of structs are columns; what is nested deeper is left out, with a query that fetches it and works."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.tables import read_tables
from tests.tables.files import columns_of, saved

FILMS = [
    {
        "id": f"f{i}",
        # In the order of the alphabet, as some versions of pyarrow make fields of a dictionary.
        "meta": {
            "budget": None if i == 4 else f"${i},000,000",
            "crew": {"director": f"D{i % 2}", "head count": 10 * i},
            "genres": [["Drama"], ["War", "Drama"]][i % 2],
            "studio": ["Pathé", "UFA", "Ealing"][i % 3],
        },
        "cast": [{"name": f"A{i % 3}", "role": "x"}, {"name": "B", "role": "y"}],
        "year": 1950 + i % 4,
    }
    for i in range(9)
]
LINKS = pa.table({"source": [f"f{i}" for i in range(8)], "target": [f"f{i}" for i in range(1, 9)]})
KINDS = {"meta.studio": "category", "meta.budget": "number", "meta.genres": "tags", "year": "number"}


def films(folder, form):
    if form == "jsonl":
        return saved(folder, "films.jsonl", "".join(json.dumps(row) + "\n" for row in FILMS))
    if form == "json":
        return saved(folder, "my films.json", json.dumps(FILMS))
    table = pa.Table.from_pylist(FILMS)
    if form == "arrow":
        return table
    pq.write_table(table, folder / "films.parquet")
    return folder / "films.parquet"


@pytest.fixture(scope="module")
def right():
    """What the same table is without structs."""
    flat = [
        {"id": row["id"]} | {f"meta.{key}": row["meta"][key] for key in ("budget", "genres", "studio")} | {"year": row["year"]}
        for row in FILMS
    ]
    return read_tables(LINKS, pa.Table.from_pylist(flat))


@pytest.mark.parametrize("form", ["json", "jsonl", "parquet", "arrow"])
def test_fields_are_columns_as_if_the_table_were_flat(tmp_path, right, form):
    nodes = films(tmp_path, form)
    read = read_tables(LINKS, nodes)
    assert columns_of(read) == columns_of(right) == KINDS
    np.testing.assert_array_equal(read.graph.features.toarray(), right.graph.features.toarray())
    assert read.columns["meta.studio"].to_pylist() == [row["meta"]["studio"] for row in FILMS]
    assert set(read.feature_encoder.dropped) == {"meta.crew", "cast"}

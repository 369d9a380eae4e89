"""Fields of structs are columns; what is nested deeper is left out, with a query that fetches it and works."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.tables import ingest, load_graph_folder, read_tables
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


@pytest.mark.parametrize("form", ["json", "jsonl", "parquet", "arrow"])
def test_fields_are_columns_as_if_the_table_were_flat(tmp_path, form):
    flat = [
        {"id": row["id"]} | {f"meta.{key}": row["meta"][key] for key in ("budget", "genres", "studio")} | {"year": row["year"]}
        for row in FILMS
    ]
    right = read_tables(LINKS, pa.Table.from_pylist(flat))
    nodes = films(tmp_path, form)
    read = read_tables(LINKS, nodes)
    assert columns_of(read) == columns_of(right) == KINDS
    np.testing.assert_array_equal(read.graph.features.toarray(), right.graph.features.toarray())
    assert read.columns["meta.studio"].to_pylist() == [row["meta"]["studio"] for row in FILMS]
    assert set(read.feature_encoder.dropped) == {"meta.crew", "cast"}
    ingest(LINKS, nodes, out=tmp_path / "graph")
    folder = load_graph_folder(tmp_path / "graph")
    assert (folder.graph.digest, folder.ingest_report) == (read.graph.digest, read.ingest_report)


@pytest.mark.parametrize("form", ["json", "jsonl", "parquet"])
def test_the_query_of_a_deeper_field_fetches_it(tmp_path, form):
    read = read_tables(LINKS, films(tmp_path, form))
    right = {
        "meta.crew": ("meta_crew_director", [row["meta"]["crew"]["director"] for row in FILMS]),
        "cast": ("cast_name", [[each["name"] for each in row["cast"]] for row in FILMS]),
    }
    for column, (alias, values) in right.items():
        why = read.feature_encoder.dropped[column]
        assert why.startswith(
            ("a struct cannot be a feature; a query fetches", "a list of structs cannot be a feature; a query fetches")
        )
        query = shlex.split(why[why.index("--nodes") :])[1]
        again = read_tables(LINKS, nodes=query)
        # It is not told again.
        assert again.feature_encoder.dropped[column] == why.partition(";")[0]
        assert columns_of(again) == KINDS | {alias: "tags" if column == "cast" else "category"}
        if column != "cast":
            assert again.columns[alias].to_pylist() == values
        else:
            (encoder,) = (each for each in again.feature_encoder.column_encoders if each.column == alias)
            assert encoder.values == tuple(sorted({each for row in values for each in row}))


def test_fields_have_roles_and_are_named_as_columns(tmp_path):
    edges = saved(tmp_path, "e.jsonl", "".join(json.dumps({"link": {"a": f"f{i}", "b": f"f{i + 1}"}}) + "\n" for i in range(8)))
    read = read_tables(
        edges, films(tmp_path, "json"), source="link.a", target="link.b", label="meta.studio", ignore=["meta.genres"]
    )
    assert read.classes == ("Ealing", "Pathé", "UFA")
    assert (read.graph.num_edges, columns_of(read)) == (16, {"meta.budget": "number", "year": "number"})
    kinds = read_tables({("film", "before", "film"): LINKS}, {"film": films(tmp_path, "json")}, ignore=["film.meta.genres"])
    assert list(columns_of(kinds)) == ["node_kind", "film.meta.budget", "film.meta.studio", "film.year"]


def test_what_has_such_a_name_already_stays_as_it_is():
    nodes = pa.Table.from_pylist([{"id": "f0", "a.B": 1, "a": {"b": 2}}, {"id": "f1", "a.B": 3, "a": {"b": 4}}])
    read = read_tables(LINKS.slice(0, 1), nodes)
    assert columns_of(read) == {"a.B": "number"}
    assert read.feature_encoder.dropped["a"].startswith(
        "a struct cannot be a feature; select a field of it as a column: SELECT *, a.b AS"
    )


def test_two_structs_with_the_same_fields_are_the_ends(tmp_path):
    """Also where another column is before them; not where two are."""
    pairs = [(1, 2), (2, 3), (3, 1)]

    def edges(ends, **before):
        rows = [{**before, **{name: {"no": 9, "id": x} for name, x in zip(ends, pair, strict=False)}, "n": 5} for pair in pairs]
        return saved(tmp_path, "e.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    for before in ({}, {"id": 7}, {"id": 7, "day": "2020-01-01"}):
        for names in (("caller", "callee"), ("source", "target")):
            report = read_tables(edges(names, **before)).ingest_report
            roles = {info.column: info.role for info in report.columns if info.role != "not used"}
            assert roles == {f"{names[0]}.id": "source", f"{names[1]}.id": "target"}
    read = read_tables(edges(("caller", "callee"), day="2020-01-01"), ignore=["day"])
    assert read.graph.num_edges == 6
    flat = saved(tmp_path, "e.csv", "caller.line,caller.name,callee.line,callee.name\n1,f,2,g\n2,g,3,h\n")
    assert read_tables(flat).graph.ids.tolist() == ["f", "g", "h"]
    assert read_tables(edges(("home", "work"), a="x", b="y")).graph.ids.tolist() == ["x", "y"]
    of_kinds = read_tables({("user", "bought", "item"): edges(("user", "item"))})
    assert of_kinds.graph.ids.tolist() == ["item:1", "item:2", "item:3", "user:1", "user:2", "user:3"]

"""No name of a column changes a result: the graph is that of the same columns with harmless names."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from tests.tables.files import EDGES, edge_weights, saved, written

HOSTILE = (
    *("rowid", "null", "filename", "file_row_number", "file_index", "columns", "column_names", "index", "shape", "i"),
    *("c", "c0", "c1", "c99", "p0", "class", "given", "people", "mine", "ids", "ends", "found", "s", "t", "w", "v"),
    *("x", "n", "times", "place", "true", "default", "current_date", "*", "a.b", "t.*", "?", "$1", ":x", "%s", "{}"),
    *(";", "1", "0x", "naïve", "漢字", "😀", "edge_index", "adj", "a,b", "#", "generated_always", "collect_schema"),
    *("json", "struct", "C0_1", "f_1", "schema", "attrs", "'", '"', "a'b", '"quoted"', "a\nb", "a\tb", "back\\slash"),
    *("-- x", "/* x */", "x; DROP TABLE people", "\u202eabc", " b ", "x" * 3000),
)
FORMS = ("csv", "parquet", "jsonl", "arrow", "pandas")


def reserved():
    import duckdb

    rows = duckdb.connect().execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'").fetchall()
    return [name for (name,) in rows if name not in HOSTILE]


@pytest.mark.parametrize("form", FORMS)
def test_ends_features_labels_and_columns_are_those_of_their_rows(tmp_path, form):
    """One table with all such names, its columns of numbers, each in another order than the rows."""
    rng = np.random.default_rng(0)
    names = [*HOSTILE, *(reserved() if form == "parquet" else ())]
    count = 40
    people = {"w h": [f"n{i}" for i in rng.permutation(count)], "%": [f"k{i}" for i in rng.integers(0, 3, count)]}
    numbers = {name: (rng.permutation(count) / 2).tolist() for name in names}
    made = written(tmp_path, form, people | numbers)
    ends = {"order": [9] * (count - 1), "'": people["w h"][1:], '"': people["w h"][:-1], "a\nb": [1.5] * (count - 1)}
    asked = {"source": '"', "target": "'", "weight": "a\nb", "id": "w h", "label": "%", "directed": True}
    edges = written(tmp_path, form, ends, "e")
    found = read_tables(edges, made, **asked)
    assert found.graph.ids.tolist() == people["w h"]
    assert [found.classes[label] for label in found.graph.labels] == people["%"]
    assert edge_weights(found.graph) == dict.fromkeys(itertools.pairwise(people["w h"]), 1.5)
    x = np.array(list(numbers.values()), float).T
    assert np.allclose(found.graph.features, (x - x.mean(0)) / x.std(0), atol=1e-5)
    kept = found.columns.to_pydict()
    named = [name.strip() for name in names] if form == "csv" else names
    assert list(kept) == ["w h", "%", *named]
    assert [[float(each) for each in kept[name]] for name in named] == [numbers[name] for name in names]
    again = read_tables(edges, made, **asked, feature_encoder=found.feature_encoder)
    assert np.array_equal(again.graph.features, found.graph.features)


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "arrow", "pandas", "two files"])
@pytest.mark.parametrize("pair", [("A", "a"), ("id", "ID"), ("rowid", "ROWID"), ("x", " X"), ("ß", "ss")])
def test_two_columns_that_are_one_name_but_for_capitals_are_refused(tmp_path, form, pair):
    one, other = pair
    columns = {"id": ["a", "b", "c"], one: ["1", "2", "3"], other: ["4", "5", "7"], f"{other}_1": ["1", "1", "2"]}
    if form == "two files":
        # DuckDB takes columns of later files by name, and would not tell these two apart.
        written(tmp_path, "parquet", {"id": ["d"], one: ["1"], f"{other}_1": ["1"]}, "m")
        written(tmp_path, "parquet", columns)
        people = tmp_path / "*.parquet"
    else:
        people = written(tmp_path, form, columns)
    with pytest.raises(DataError, match=": it has two columns of the same name, "):
        read_tables(saved(tmp_path, "e.csv", EDGES), people)


def test_a_column_called_json(tmp_path):
    """As DuckDB calls what is no row."""
    people = saved(tmp_path, "n.jsonl", '{"json": "a"}\n{"json": "b"}\n')
    assert read_tables(saved(tmp_path, "e.csv", EDGES), people).graph.ids.tolist() == ["a", "b"]
    for text in ("[1, 2]", '{"": 1, "b": 2}', '"a"', "[]", "[[1]]", '[{"json": 1}, 2]'):
        with pytest.raises(DataError):
            read_tables(tmp_path / "e.csv", saved(tmp_path, "n.json", text))


def test_json_objects_with_many_keys_are_rows(tmp_path):
    """From 200 keys on of one type, DuckDB would take them for values."""
    rng = np.random.default_rng(2)
    rows = [{"id": i} | {f"x{k}": float(value) for k, value in enumerate(rng.normal(size=210))} for i in range(3)]
    people = saved(tmp_path, "n.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = read_tables(pa.table({"source": [0, 1], "target": [1, 2]}), people, feature_encoder=None)
    assert found.columns.num_columns == 211

"""What is said of a table is one line, and not a long one, whatever it quotes; and nothing else is said."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import FeatureEncoder, read_tables
from clnr.tables.columns.column_encoders import ColumnEncoder
from clnr.tables.columns.node_columns import check_columns
from clnr.tables.io.sql import fetch_numpy, run


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *((name, 5) for name in ("source", "target", "id", "label", "until", "memory", "name")),
        *(("weight", value) for value in (5, b"x", [5], {"x": 1.0}.values())),
        *(("directed", value) for value in ("x", 1, 0.0, [])),
        *(("feature_encoder", 5), ("base", (1, 2)), ("types", ["age"]), ("ignore", "age")),
        *((role, value) for role in ("edges", "nodes") for value in (7, b"e.csv", {"id": [1]}, np.zeros((2, 2)), object())),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(argument, value):
    given = {} if argument == "edges" else {"edges": pa.table({"source": [1], "target": [2]})}
    with pytest.raises(DataError, match=rf"^{argument} must be .*, not a (value of type )?{type(value).__name__}$"):
        read_tables(**given, **{argument: value})


def test_numbers_out_of_range_are_no_warning():
    edges = pa.table({"source": [0, 1], "target": [1, 2], "weight": [3.4e38, 1e-45]})
    vectors = {"small": [[1e-50], [2e-50], [-3e-50]], "large": [[1e308, 1.0], [-1e308, 2.0], [3e38, 3.0]]}
    spread = FeatureEncoder((ColumnEncoder("small", "vector", 1, scale=1e300), ColumnEncoder("one", "vector", 1, scale=1e-300)))
    people = pa.table({"id": [0, 1, 2], "one": [[1.0]] * 3} | vectors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_tables(edges, people)
        again = read_tables(edges, people, feature_encoder=spread)
    assert np.isfinite(found.graph.features).all()
    assert np.allclose(found.graph.features[:, 1], np.array([1, 2, -3]) / np.sqrt(14 / 3), atol=1e-5)
    assert again.graph.features.tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a"]),
        pa.array([0], pa.timestamp("us", "Mars/Phobos")),
        pa.array([[1.0]]),
        pa.array([{"a": 1}]),
    ],
)
def test_earlier_columns_of_types_that_nothing_here_writes_are_refused(column):
    with pytest.raises(DataError, match=r"column 'k' is of type .*, which clnr neither writes nor reads"):
        check_columns(pa.table({"x": [1], "k": column}))


def test_a_moment_is_the_same_on_every_machine(monkeypatch):
    """Whatever time zone it is in; and columns are of types that can be read again."""
    people = (
        "SELECT i AS id, TIMESTAMPTZ '2026-03-29 00:00:00+02' + to_hours(i) AS seen, i::HUGEINT AS big, TIME '10:00' AS hour, "
        "uuid() AS u, INTERVAL 1 DAY AS span, i::DECIMAL(9, 2) AS price, 'a'::BLOB AS blob FROM range(4) r(i)"
    )
    found = []
    for zone in ("UTC", "Europe/Berlin", "Asia/Kathmandu"):
        monkeypatch.setenv("TZ", zone)
        found.append(read_tables(edges="SELECT 0 AS source, 1 AS target", nodes=people, features=["seen"]))
        check_columns(found[-1].columns)
        assert str(found[-1].columns["seen"][0]) == "2026-03-28 22:00:00"
        assert np.array_equal(found[-1].graph.features, found[0].graph.features)


def test_what_duckdb_makes_of_ctrl_c_is_ctrl_c_again():
    class Interrupted:
        def execute(self, *_):
            raise RuntimeError("Query interrupted")

    for query in (run, fetch_numpy):
        with pytest.raises(KeyboardInterrupt):
            query(Interrupted(), "SELECT 1", "edges")

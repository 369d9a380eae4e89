"""Sums and what is scaled by them are the same bits, however many threads DuckDB has."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from clnr.tables import read_tables
from clnr.tables.columns.exact_sums import SumRange
from clnr.tables.io import sql

# DuckDB shares out the rows of a table among threads in parts of 122,880.
ROWS = 2 * 122_880
THREADS = (1, 8)


@pytest.fixture
def with_threads(monkeypatch):
    return lambda count: monkeypatch.setitem(sql._SETTINGS, "threads", str(count))


def test_columns_are_scaled_alike_whatever_the_threads(with_threads):
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.lognormal(0, 3, ROWS) for i in range(2)}
    nodes = pa.table(
        {"id": np.arange(ROWS), **columns, "list": pa.FixedSizeListArray.from_arrays(rng.normal(size=2 * ROWS), 2)}
    )
    edges = pa.table({"source": [0], "target": [1]})
    found, digests = [], set()
    for count in THREADS:
        with_threads(count)
        read = read_tables(edges, nodes)
        digests.add(read.graph.digest)
        found.append(read.feature_encoder)
    assert len(digests) == 1
    assert all(each == found[0] for each in found)
    first, values = found[0].column_encoders[0], columns["x0"]
    mean = math.fsum(values) / ROWS
    spread = math.sqrt(math.fsum((values - mean) ** 2) / ROWS)
    assert (first.centre, first.scale) == pytest.approx((mean, spread), rel=1e-15)


# In float32, 1 + 2^-24 is halfway between two numbers: next to it, what is much smaller decides.
HALFWAY, SMALL = 1 + 2.0**-24, 2.0**-54


@pytest.mark.parametrize("kinds", [False, True])
def test_weights_of_repeated_edges_are_added_alike_whatever_the_threads(with_threads, kinds):
    pairs = 6
    node = np.arange(ROWS) % pairs
    weight = np.where(np.arange(ROWS) < pairs, HALFWAY, SMALL)
    edges = {"source": 2 * node, "target": 2 * node + 1, "weight": weight}
    more = {"edge_type": "kind"} if kinds else {}
    digests = set()
    for count in THREADS:
        with_threads(count)
        read = read_tables(pa.table(edges | ({"kind": pa.array(["one"]).take(np.zeros(ROWS, int))} if kinds else {})), **more)
        digests.add(read.graph.digest)
        assert set(read.graph.edges()[2].tolist()) == {1 + 2.0**-23}
    assert len(digests) == 1


@pytest.mark.parametrize("exponents", [(-3, 3), (-20, 25), (-140, 120), (-1070, 100)])
def test_a_sum_is_that_of_fractions(db, exponents):
    rng = np.random.default_rng(1)
    values = np.ldexp(rng.random(200), rng.integers(*exponents, 200))
    values[::7] = 0
    group = np.arange(200) % 5
    db.register("given", pa.table({"v": values, "g": group}))
    total = SumRange.of(db, "v", "given", "given").sql("v", "v < 1e300")
    for group_of, found in db.execute(f"SELECT g, {total} FROM given GROUP BY g").fetchall():
        exact = sum((Fraction(each) for each in values[group == group_of]), Fraction(0))
        assert found == pytest.approx(float(exact), rel=1e-15)

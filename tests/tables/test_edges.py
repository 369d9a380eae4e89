"""Edges of tables against a slow reading of the rules in plain Python, in memory and in folders."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import ingest, read_tables
from tests.tables.files import edge_weights, saved

RNG = np.random.default_rng(0)
NAMES = [f"n{i}" for i in range(12)]
ROWS = [(*RNG.choice(NAMES, 2).tolist(), float(RNG.integers(0, 9)) / 4) for _ in range(80)]


def table(rows, *columns):
    return pa.table(dict(zip(columns or ("source", "target", "weight"), zip(*rows, strict=True), strict=False)))


def expected(rows, directed):
    """The weight of each edge, both ways if it is undirected: repeated rows add up; of two directions the larger counts."""
    sums = defaultdict(float)
    for a, b, w in rows:
        sums[a, b] += w
    pairs = {pair: w for pair, w in sums.items() if pair[0] != pair[1]}
    if not directed:
        pairs = {(a, b): max(sums.get((a, b), 0), sums.get((b, a), 0)) for x, y in pairs for a, b in ((x, y), (y, x))}
    return {pair: w for pair, w in pairs.items() if w}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_rows_that_repeat_an_edge_are_merged(tmp_path, directed, weighted):
    rows = ROWS if weighted else [(a, b, 1.0) for a, b in {(a, b) for a, b, _ in ROWS}]
    given = table(ROWS) if weighted else table([row[:2] for row in ROWS], "source", "target")
    graph = read_tables(given, directed=directed)
    assert edge_weights(graph) == pytest.approx(expected(rows, directed))
    assert graph.info.counts["loops"] == sum(a == b for a, b, _ in ROWS)
    assert ingest(given, directed=directed, out=tmp_path / "g", memory="1 GB").digest == graph.digest


def test_sums_are_the_same_in_any_order_and_exact_enough():
    rows = [("a", "b", float(w)) for w in RNG.uniform(0, 1, 1000)] + [("b", "c", 1e-9), ("a", "b", 1e7)]
    forth, back = (edge_weights(read_tables(table(given))) for given in (rows, rows[::-1]))
    assert forth == back
    assert forth["a", "b"] == pytest.approx(sum(w for a, _, w in rows if a == "a"), rel=1e-6)
    assert forth["b", "c"] == pytest.approx(1e-9, rel=1e-6)


def normalised(rows):
    """The mean of the normalised adjacency matrices of all kinds, as weights whose total is that of the rows."""
    kinds = {kind: expected([row[:3] for row in rows if row[3] == kind], False) for kind in {row[3] for row in rows}}
    pairs = sorted({pair for each in kinds.values() for pair in each})
    degree = {kind: defaultdict(float) for kind in kinds}
    for kind, each in kinds.items():
        for (a, _), w in each.items():
            degree[kind][a] += w
    whole = {node: sum(each[node] for each in degree.values()) for node in {a for a, _ in pairs}}
    made = {
        kind: {(a, b): w * np.sqrt(whole[a] * whole[b] / degree[kind][a] / degree[kind][b]) for (a, b), w in each.items()}
        for kind, each in kinds.items()
    }
    scale = sum(sum(each.values()) for each in kinds.values()) / sum(sum(each.values()) for each in made.values())
    return {pair: scale * sum(each.get(pair, 0) for each in made.values()) for pair in pairs}


def test_each_kind_of_edges_is_normalised_by_its_own_degrees(tmp_path):
    rows = [(*row, kind) for row, kind in zip(ROWS, itertools.cycle(("met", "wrote", "wrote")), strict=False)]
    tables = {kind: table([row[:3] for row in rows if row[3] == kind]) for kind in ("met", "wrote")}
    graph = read_tables(tables)
    assert edge_weights(graph) == pytest.approx(normalised(rows), rel=1e-4)
    assert sorted(graph.info.edge_kinds) == ["met", "wrote"]
    assert ingest(tables, out=tmp_path / "g", memory="1 GB").digest == graph.digest


@pytest.mark.parametrize(
    ("until", "kept"),
    [
        ("day=2020-01-02", "ab bc"),
        ("day=2020-01", "ab bc cd"),
        ("day=2020", "ab bc cd de"),
        ("year=2020", "ab bc cd de"),
        ("year=2019.5", "ab"),
    ],
)
def test_later_edges_are_left_out(tmp_path, until, kept):
    text = "source,target,day,year\na,b,2020-01-01,2019\nb,c,2020-01-02 23:59,2020\nc,d,2020-01-31,2020\nd,e,2020-12-31,2020\n"
    graph = read_tables(saved(tmp_path, "e.csv", f"{text}e,f,2021-01-01,2021\n"), until=until)
    assert {f"{a}{b}" for a, b in edge_weights(graph) if a < b} == set(kept.split())


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ("a,b,1,\nb,c,heavy,\n", ("weight", "heavy", "row 2")),
        ("a,b,1,\nb,c,1e39,\n", ("weight", "1e39", "row 2")),
        ("a,b,inf,\n", ("weight", "row 1")),
    ],
)
def test_what_is_no_weight_is_refused_with_its_row(tmp_path, rows, facts):
    with pytest.raises(DataError) as refused:
        read_tables(saved(tmp_path, "e.csv", f"source,target,weight,\n{rows}"))
    assert all(fact in str(refused.value) for fact in (*facts, "e.csv"))


def test_a_time_that_cannot_be_read_is_refused_with_its_row(tmp_path):
    path = saved(tmp_path, "e.csv", "source,target,day\na,b,2020-01-01\nb,c,soon\n")
    with pytest.raises(DataError, match=r"e\.csv.*'day'.*soon.*row 2"):
        read_tables(path, until="day=2020")

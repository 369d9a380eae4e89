"""Edges of several kinds and times, against loops over their rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.tables import read_tables
from clnr.tables.table_graph import TableInfo
from tests.tables.files import edge_weights

ROWS = [
    ("a", "b", 2.0, "buys", "2020-01-01"),
    ("b", "c", 3.0, "buys", "2020-01-11"),
    ("a", "b", 1.0, "knows", "2020-01-21"),
    ("c", "d", 1.0, "buys", "2020-01-31 12:00"),
]
NAMES = ("source", "target", "weight", "sort", "day")
EDGES = pa.table(dict(zip(NAMES, zip(*ROWS, strict=True), strict=True)))


def weights(read):
    """The weight of each edge once, the lower id first."""
    return {pair: weight for pair, weight in edge_weights(read.graph).items() if pair[0] < pair[1]}


def added(rows):
    """The weights of edges given as source, target and weight."""
    total = {}
    for a, b, w in rows:
        total[a, b] = total.get((a, b), 0.0) + w
    return total


def normalised(rows, directed=False):
    """Weights normalised for each kind by itself, by loops over edges (source, target, weight, kind); and what kinds got."""
    edges = {}
    for a, b, w, kind in rows:
        edges[a, b, kind] = edges.get((a, b, kind), 0.0) + w
    out, into = {}, {}
    for (a, b, kind), w in edges.items():
        for strength, node in ((out, a), (into, b), *(((out, b), (into, a)) if not directed else ())):
            strength[node, kind] = strength.get((node, kind), 0.0) + w
            strength[node] = strength.get(node, 0.0) + w
    made = {
        (a, b, kind): w * np.sqrt(out[a] * into[b] / (out[a, kind] * into[b, kind])) if w else 0.0
        for (a, b, kind), w in edges.items()
    }
    scale = sum(edges.values()) / sum(made.values())
    factors = {}
    for kind in {kind for *_, kind in edges}:
        before, after = (sum(w for (*_, each), w in some.items() if each == kind) for some in (edges, made))
        factors[kind] = scale * after / before
    return added([(a, b, w * scale) for (a, b, _), w in made.items()]), factors


@pytest.mark.parametrize(("weighted", "directed"), [(True, False), (False, False), (True, True)])
def test_each_kind_of_edges_is_normalised_by_itself(weighted, directed):
    edges = EDGES if weighted else EDGES.drop_columns("weight")
    read = read_tables(edges, edge_type="sort", directed=directed)
    expected, factors = normalised([(a, b, w if weighted else 1.0, kind) for a, b, w, kind, _ in ROWS], directed)
    assert read.ingest_report.edge_types == pytest.approx(factors, rel=1e-5)
    assert weights(read) == pytest.approx(expected, rel=1e-5)
    assert [column.role for column in read.ingest_report.columns][-2:] == ["edge type", "not used"]


def test_new_edges_are_multiplied_as_those_of_their_kind():
    first = read_tables(EDGES, edge_type="sort")
    more = pa.table({"source": ["d", "e"], "target": ["e", "a"], "weight": [4.0, 1.0], "sort": ["knows", "buys"]})
    read = read_tables(more, edge_type="sort", base=first)
    factor = first.ingest_report.edge_types
    new = {("d", "e"): 4 * factor["knows"], ("a", "e"): factor["buys"]}
    assert weights(read) == pytest.approx(weights(first) | new)
    assert read.ingest_report.edge_types == factor
    with pytest.raises(DataError, match="the earlier graph has no edges of the kind 'hates', only 'buys', 'knows'"):
        read_tables(more.set_column(3, "sort", pa.array(["hates", "buys"])), edge_type="sort", base=first)
    with pytest.raises(DataError, match=r"the earlier graph has kinds of edges.*--edge-type"):
        read_tables(more, base=first)
    with pytest.raises(DataError, match="the earlier graph has no kinds of edges"):
        read_tables(more, edge_type="sort", base=read_tables(EDGES))


@pytest.mark.parametrize(
    ("until", "count"),
    [("2020-01-01", 1), ("2020-01-31", 4), ("2020-01-31 12:00", 4), ("2020-01-31 11:59", 3), ("2020", 4)],
)
def test_the_graph_as_of_a_day(until, count):
    read = read_tables(EDGES, until=f"day={until}")
    assert weights(read) == pytest.approx(added([row[:3] for row in ROWS[:count]]))
    left = f"left out: {4 - count} edge{'s' if count < 3 else ''} of 4 after {until}"
    assert [line.partition(": ")[2] for line in read.ingest_report.remarks] == ([left] if count < 4 else [])
    assert [each.column for each in read.ingest_report.columns if each.role == "time"] == ["day"]


@pytest.mark.parametrize(
    ("times", "note", "as_text"),
    [
        ([1577836800, 1579392000, 1580472000], "seconds since 1970", False),
        ([1577836800000, 1579392000000, 1580472000000], "milliseconds since 1970", True),
        ([20200101, 20200119, 20200131], "days, such as 20201231", True),
    ],
)
def test_numbers_that_are_dates_are_read_as_dates(times, note, as_text):
    edges = {"source": ["a", "b", "c"], "target": ["b", "c", "d"], "at": [str(each) for each in times] if as_text else times}
    read = read_tables(pa.table(edges), until="at=2020-01-30")
    assert len(weights(read)) == 2
    assert any(note in line for line in read.ingest_report.remarks)


def test_damaged_kinds_are_refused():
    content = json.loads(TableInfo(None, (), read_tables(EDGES, edge_type="sort").ingest_report).to_json())
    for wrong in (0, -1, float("inf"), "2", None):
        content["findings"]["edge_types"] = {"buys": wrong}
        with pytest.raises(ValueError, match="is not a finite number above 0"):
            TableInfo.from_json(json.dumps(content))

"""Edges of several kinds and times, against loops over their rows."""

from __future__ import annotations

import json
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from clnr.errors import DataError, spoken
from clnr.tables import ingest, load_graph_folder, read_tables
from clnr.tables.table_graph import TableInfo
from tests.tables.files import edge_weights, saved

ROWS = [
    ("a", "b", 2.0, "buys", "2020-01-01"),
    ("b", "c", 3.0, "buys", "2020-01-11"),
    ("a", "b", 1.0, "knows", "2020-01-21"),
    ("c", "d", 1.0, "buys", "2020-01-31 12:00"),
]
NAMES = ("source", "target", "weight", "sort", "day")
EDGES = pa.table(dict(zip(NAMES, zip(*ROWS, strict=True), strict=True)))
DAY = dict(zip((row[4] for row in ROWS), (0.0, 10.0, 20.0, 30.5), strict=True))


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
def test_each_kind_of_edges_is_normalised_by_itself(weighted, directed, tmp_path):
    edges = EDGES if weighted else EDGES.drop_columns("weight")
    read = read_tables(edges, edge_type="sort", directed=directed)
    expected, factors = normalised([(a, b, w if weighted else 1.0, kind) for a, b, w, kind, _ in ROWS], directed)
    assert read.ingest_report.edge_types == pytest.approx(factors, rel=1e-5)
    assert weights(read) == pytest.approx(expected, rel=1e-5)
    assert [column.role for column in read.ingest_report.columns][-2:] == ["edge type", "not used"]
    ingest(edges, edge_type="sort", directed=directed, out=tmp_path / "graph", memory="1 GB")
    again = load_graph_folder(tmp_path / "graph")
    assert again.graph.digest == read.graph.digest
    assert again.ingest_report == read.ingest_report


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
    [
        *[("2020-01-01", 1), ("2020-01-31", 4), ("2020-01-31 12:00", 4), ("2020-01-31 11:59", 3), ("2020", 4)],
        *[(date(2020, 1, 31), 4), (datetime(2020, 1, 31, 11, 59), 3), (pd.Timestamp("2020-01-31 12:00"), 4)],
    ],
)
def test_the_graph_as_of_a_day(until, count):
    read = read_tables(EDGES, edge_time="day", until=until)
    assert weights(read) == pytest.approx(added([row[:3] for row in ROWS[:count]]))
    left = f"left out: {4 - count} edge{'s' if count < 3 else ''} of 4 after {until}"
    assert [line.partition(": ")[2] for line in read.ingest_report.remarks] == ([left] if count < 4 else [])


def test_times_without_a_use_are_named():
    for named, note in (({}, "used only with --until or --half-life"), ({"until": "2020"}, ""), ({"half_life": 3.0}, "")):
        columns = read_tables(EDGES, edge_time="day", **named).ingest_report.columns
        assert [each.note for each in columns if each.role == "time"] == [spoken(note)]


def faded(now):
    """Rows of source, target, weight and kind; of old edges, the weight is less, and the total stays."""
    rows = [(a, b, w * 0.5 ** ((now - DAY[day]) / 10), kind) for a, b, w, kind, day in ROWS]
    scale = sum(row[2] for row in ROWS) / sum(row[2] for row in rows)
    return [(a, b, w * scale, kind) for a, b, w, kind in rows]


@pytest.mark.parametrize("until", [None, "2020-01-31 12:00", "2020-02-09"])
def test_old_edges_fade(until):
    read = read_tables(EDGES, edge_time="day", until=until, half_life=10)
    now = {None: 30.5, "2020-01-31 12:00": 30.5, "2020-02-09": 40.0}[until]
    assert any(line.endswith(f", as of {until or 'the last edge, 2020-01-31'}") for line in read.ingest_report.remarks)
    rows = faded(now)
    assert weights(read) == pytest.approx(added([row[:3] for row in rows]), rel=1e-5)
    assert sum(w for _, _, w, _ in rows) == pytest.approx(sum(w for _, _, w, _, _ in ROWS))


def test_years_are_times_in_years(tmp_path):
    path = saved(tmp_path, "e.csv", "a,b,year\nx,y,1999\ny,z,2001\nz,w,2003\n")
    read = read_tables(path, edge_time="year", until="2001", half_life=2)
    assert weights(read) == pytest.approx({("x", "y"): 2 / 3, ("y", "z"): 4 / 3}, rel=1e-5)
    with pytest.raises(DataError, match=r"--until must be a number, like those in 'year', not 'May'"):
        read_tables(path, edge_time="year", until="May")
    with pytest.raises(DataError, match=r"e\.csv: all its edges are later than 1990, by 'year'"):
        read_tables(path, edge_time="year", until="1990")


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
    read = read_tables(pa.table(edges), edge_time="at", until="2020-01-30", half_life=10)
    assert len(weights(read)) == 2
    assert weights(read)["a", "b"] / weights(read)["b", "c"] == pytest.approx(0.5**1.8, rel=1e-5)
    assert any(note in line for line in read.ingest_report.remarks)
    assert any("edge weights halve every 10 days" in line for line in read.ingest_report.remarks)


@pytest.mark.parametrize("times", [[20200100, 20200101], [17, 18], [1577836800.5, 1577836801], [1999, 1577836800]])
def test_other_numbers_are_times_in_their_own_unit(times):
    read = read_tables(pa.table({"source": ["a", "b"], "target": ["b", "c"], "at": times}), edge_time="at", half_life=1e9)
    last = f"units of 'at', as of the last edge, {max(times)}"
    assert any(last in line for line in read.ingest_report.remarks)


def test_the_last_edge_may_be_in_any_year(tmp_path):
    path = saved(tmp_path, "e.csv", "source,target,at\na,b,2020-01-01\nb,c,294247-01-10\n")
    remarks = read_tables(path, edge_time="at", half_life=1e7).ingest_report.remarks
    assert any("as of the last edge, 294247-01-10" in line for line in remarks)


def test_edges_that_fade_to_nothing_are_warned_of():
    (line,) = [line for line in read_tables(EDGES, edge_time="day", half_life=0.1).ingest_report.remarks if "no weight" in line]
    assert line.startswith("warning: ")
    assert "of 4 edges, 3 are older than 20 half-lives" in line


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"until": "2020"}, r"--until needs the column of the edges' times: --edge-time"),
        ({"half_life": 3.0}, "--half-life needs the column"),
        ({"edge_time": "day", "half_life": 0}, "--half-life must be above 0"),
        ({"edge_time": "day", "half_life": float("nan")}, "--half-life must be above 0"),
        ({"edge_time": "day", "until": "soon"}, "until must be a date such as 2020-12-31, the year first, not 'soon'"),
        ({"edge_time": "day", "until": 2020}, "until must be a date, or text"),
        ({"edge_time": "none"}, "there is no column 'none' for edge times"),
        ({"edge_type": "none"}, "there is no column 'none' for edge types"),
    ],
)
def test_what_cannot_be_is_refused(asked, said):
    with pytest.raises(DataError, match=said):
        read_tables(EDGES, **asked)


def test_a_wrong_time_or_kind_is_named_with_its_row(tmp_path):
    path = saved(tmp_path, "e.csv", "source,target,day,kind\na,b,2020-01-01,x\nb,c,never,\n")
    for asked, said in (
        ({"edge_time": "day"}, r"e\.csv: 'day' is 'never' in row 2, which is not a time; correct it"),
        ({"edge_type": "kind"}, r"e\.csv: 'kind' is empty in row 2"),
        ({"edge_time": "target", "source": "day", "target": "source"}, r"'target' holds no times: row 1 has 'b'; .*"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables(path, **asked)


def test_the_age_of_new_edges_is_as_of_a_day():
    first = read_tables(EDGES, edge_time="day", half_life=10)
    more = pa.table({"source": ["a"], "target": ["e"], "day": ["2020-02-01"]})
    with pytest.raises(DataError, match=r"need --until, the day from which ages count"):
        read_tables(more, edge_time="day", half_life=10, base=first)
    read = read_tables(more, edge_time="day", half_life=10, until="2020-02-10 00:00", base=first)
    assert weights(read) == pytest.approx(weights(first) | {("a", "e"): 0.5**0.9 * first.ingest_report.fading})
    assert read.ingest_report.fading == first.ingest_report.fading > 1


def test_damaged_kinds_are_refused():
    content = json.loads(TableInfo(None, (), read_tables(EDGES, edge_type="sort").ingest_report).to_json())
    for wrong in (0, -1, float("inf"), "2", None):
        content["findings"]["edge_types"] = {"buys": wrong}
        with pytest.raises(ValueError, match="is not a finite number above 0"):
            TableInfo.from_json(json.dumps(content))


def test_kinds_and_fading_go_together():
    read = read_tables(EDGES, edge_type="sort", edge_time="day", half_life=10)
    expected, _ = normalised(faded(30.5))
    assert weights(read) == pytest.approx(expected, rel=1e-5)

"""Edges of several kinds and times: each kind is normalised by itself, and later edges are left out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from clnr.errors import DataError, one_line, option
from clnr.support.humanize import plural
from clnr.tables.columns.exact_sums import SumRange
from clnr.tables.columns.notations import NOTATIONS, find_notation, usual_sql
from clnr.tables.io.source import Table
from clnr.tables.io.sql import DATETIMES, NUMBERS, Connection, quoted, run, trimmed

_DATE_PATTERN = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
# How long a date lasts, by its number of letters: a year, a month or a day.
_SPAN_BY_LETTERS = {4: "1 YEAR", 7: "1 MONTH", 10: "1 DAY"}
# Whole numbers from the middle of the eighties, or of 1979, on to the 22nd century, if they are times since 1970.
_SINCE_1970 = {
    "seconds": (3e8, 5e9, 1.0),
    "milliseconds": (5e11, 5e12, 1e3),
    "microseconds": (5e14, 5e15, 1e6),
    "nanoseconds": (5e17, 5e18, 1e9),
}
_DAY_NUMBERS = (19000101, 21001231)


class EdgeTimes(NamedTuple):
    """How the times of edges are read.

    Attributes:
        column: Their column.
        sql: A time as a number.
        as_dates: Whether they are dates, in seconds; else they are numbers in a unit of their own, such as years.
        note: What is to be said about numbers that are read as dates.
    """

    column: str
    sql: str
    as_dates: bool
    note: str = ""

    @classmethod
    def of(cls, db: Connection, table: Table, column: str) -> EdgeTimes:
        """Text is read as numbers if all of it is, else as dates."""
        c, kind = table.columns[column]
        if kind.startswith(DATETIMES):
            return cls(column, f"epoch(CAST({c} AS TIMESTAMP))", True)
        if kind.startswith(NUMBERS):
            return cls._of_numbers(db, table, column, f"CAST({c} AS DOUBLE)")
        text = trimmed(c)
        number = f"TRY_CAST({text} AS DOUBLE)"
        dates = f"SELECT 1 FROM {table.sql} WHERE {text} IS NOT NULL AND {number} IS NULL LIMIT 1"
        if run(db, dates, table.name):
            notation = find_notation(db, table, column)
            if NOTATIONS.get(notation) == "number":
                return cls(column, f"TRY_CAST({usual_sql(text, notation)} AS DOUBLE)", False)
            usual = usual_sql(text, notation) if notation else text
            # Not a year of two digits, such as 19-07-24, which would be one of the first century.
            day = f"CASE WHEN {usual} NOT SIMILAR TO '[0-9]{{1,2}}-.*' THEN {usual} END"
            return cls(column, f"epoch(TRY_CAST({day} AS TIMESTAMP))", True)
        return cls._of_numbers(db, table, column, number)

    @classmethod
    def _of_numbers(cls, db: Connection, table: Table, column: str, number: str) -> EdgeTimes:
        """Numbers that can hardly be anything else are dates: times since 1970, and days such as 20201231."""
        day = f"try_strptime(CAST(CAST({number} AS BIGINT) AS VARCHAR), '%Y%m%d')"
        span = f"min({number}), max({number}), bool_and({number} = floor({number}))"
        ((low, high, whole),) = run(db, f"SELECT {span} FROM {table.sql}", table.name)
        if not whole:
            return cls(column, number, False)
        for unit, (first, last, size) in _SINCE_1970.items():
            if first <= low and high < last:
                return cls(column, f"({number} / {size!r})", True, f"'{column}' is read as {unit} since 1970")
        if _DAY_NUMBERS[0] <= low and high <= _DAY_NUMBERS[1]:
            ((all_days,),) = run(db, f"SELECT bool_and({number} IS NULL OR {day} IS NOT NULL) FROM {table.sql}", table.name)
            if all_days:
                return cls(column, f"epoch({day})", True, f"'{column}' is read as days, such as 20201231")
        return cls(column, number, False)

    def end_of(self, db: Connection, until: str) -> float:
        """The first time after ``until``; a date lasts until its end."""
        plain = until.strip()
        if not self.as_dates:
            try:
                return math.nextafter(float(plain), math.inf)
            except ValueError:
                raise DataError(f"{option('until')} must be a number, like those in '{self.column}', not '{until}'") from None
        span, first = "1 MICROSECOND", plain
        if _DATE_PATTERN.fullmatch(plain):
            span, first = _SPAN_BY_LETTERS[len(plain)], plain + "-01-01"[: 10 - len(plain)]
        ((end,),) = run(db, f"SELECT epoch(TRY_CAST({quoted(first)} AS TIMESTAMP) + INTERVAL {span})", "until")
        if end is None:
            raise DataError(f"{option('until')} must be a date such as 2020-12-31, the year first, not '{one_line(plain, 80)}'")
        return float(end)


def keep_until(db: Connection, title: str, times: EdgeTimes, until: str) -> list[str]:
    """Remove edges from the SQL table ``edges`` whose ``moment`` is later; a note says how many there were."""
    end = times.end_of(db, until)
    ((later, rows),) = run(db, f"SELECT count(*) FILTER (moment >= {end!r}), count(*) FROM edges", title)
    if later == rows:
        raise DataError(f"{title}: all its edges are later than {until}, by '{times.column}'; choose a later {option('until')}")
    run(db, f"DELETE FROM edges WHERE moment >= {end!r}", title)
    return [f"{title}: left out: {plural(later, 'edge')} of {rows:,} after {until}"] if later else []


def normalise_kinds(db: Connection, title: str, directed: bool) -> dict[str, float]:
    """Normalise the weights ``w`` of the SQL table ``edges_by_kind`` for each ``kind`` by itself; what each was multiplied by.

    If d is the total weight of a node's edges, and d_k that of those of kind k, an edge (i, j) of kind k is multiplied by
    sqrt(d_i d_j / (d_ki d_kj)): once a convolution has divided by the degrees of both ends, this is the mean of the normalised
    adjacency matrices of all kinds. In a directed graph, d is of outgoing edges at sources, and of incoming ones at targets.
    One number for all keeps the total weight, so that edges of a single kind stay as they are. What a kind was multiplied by is
    the mean over its edges, by weight.
    """
    both = "SELECT a AS node, kind, w FROM edges_by_kind", "SELECT b AS node, kind, w FROM edges_by_kind"
    given = SumRange.of(db, "w", "edges_by_kind", title)
    for name, ends in zip("ab", both if directed else 2 * [" UNION ALL ".join(both)], strict=True):
        totals = f"SELECT node, kind, {given.sql('w')} AS d FROM ({ends}) GROUP BY node, kind"
        run(db, f"CREATE TEMP TABLE totals AS {totals}", title)
        of_nodes = f"SELECT node, {SumRange.of(db, 'd', 'totals', title).sql('d')} AS whole FROM totals GROUP BY node"
        factors = f"SELECT node, kind, sqrt(whole / nullif(d, 0)) AS factor FROM totals JOIN ({of_nodes}) USING (node)"
        run(db, f"CREATE TEMP TABLE factors_{name} AS {factors}", title)
        run(db, "DROP TABLE totals", title)
    joins = (f"JOIN factors_{name} AS {name} ON {name}.node = e.{name} AND {name}.kind = e.kind" for name in "ab")
    columns = "e.a, e.b, e.kind, e.n, e.times, e.w AS given, coalesce(e.w * a.factor * b.factor, 0) AS w"
    run(db, f"CREATE TEMP TABLE normalised AS SELECT {columns} FROM edges_by_kind AS e {' '.join(joins)}", title)
    sums = f"{given.sql('given')}, {SumRange.of(db, 'w', 'normalised', title).sql('w')}"
    sums_by_kind = run(db, f"SELECT kind, {sums} FROM normalised GROUP BY kind ORDER BY kind", title)
    scale = _rounded(math.fsum(before for _, before, _ in sums_by_kind), math.fsum(after for _, _, after in sums_by_kind))
    for name in ("edges_by_kind", "factors_a", "factors_b"):
        run(db, f"DROP TABLE {name}", title)
    run(db, f"CREATE TEMP TABLE edges_by_kind AS SELECT * EXCLUDE (given) REPLACE (w * {scale!r} AS w) FROM normalised", title)
    run(db, "DROP TABLE normalised", title)
    return {kind: _rounded(after * scale, before) for kind, before, after in sums_by_kind}


def multiply_kinds(db: Connection, title: str, known: Mapping[str, float]) -> None:
    """Multiply the weights ``w`` of the SQL table ``edges_by_kind`` as those of an earlier graph; a new kind is an error."""
    kinds = [kind for (kind,) in run(db, "SELECT DISTINCT kind FROM edges_by_kind ORDER BY kind", title)]
    if new := [kind for kind in kinds if kind not in known]:
        there = ", ".join(f"'{kind}'" for kind in known)
        raise DataError(f"{title}: the earlier graph has no edges of the kind '{one_line(new[0], 80)}', only {there}")
    cases = " ".join(f"WHEN {quoted(kind)} THEN {known[kind]!r}" for kind in kinds)
    if cases:
        run(db, f"UPDATE edges_by_kind SET w = w * CASE kind {cases} END", title)


def _rounded(a: float, b: float) -> float:
    """A quotient to six digits; 1 if there is nothing."""
    return float(f"{a / b:.6g}") if a and b else 1.0

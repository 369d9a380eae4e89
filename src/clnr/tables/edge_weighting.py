"""Edges of several kinds and times: all kinds weigh the same in total, later edges are left out, and old ones fade."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from clnr.errors import DataError
from clnr.support.humanize import one_line, plural
from clnr.tables.source import Table
from clnr.tables.sql import DATETIMES, NUMBERS, quoted, run, trimmed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY = 86_400.0
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
# How long a date lasts that has so many letters: a year, a month or a day.
_SPANS = {4: "1 YEAR", 7: "1 MONTH", 10: "1 DAY"}


class EdgeTimes(NamedTuple):
    """How the times of edges are read.

    Attributes:
        column: Their column.
        sql: A time as a number.
        as_dates: Whether they are dates, in seconds; else they are numbers in a unit of their own, such as years.
    """

    column: str
    sql: str
    as_dates: bool

    @classmethod
    def of(cls, db: DuckDBPyConnection, table: Table, column: str) -> EdgeTimes:
        """Text is read as numbers if all of it is, else as dates."""
        c, kind = table.columns[column]
        if kind.startswith(DATETIMES):
            return cls(column, f"epoch(CAST({c} AS TIMESTAMP))", True)
        if kind.startswith(NUMBERS):
            return cls(column, f"CAST({c} AS DOUBLE)", False)
        text = trimmed(c)
        number = f"TRY_CAST({text} AS DOUBLE)"
        dates = f"SELECT 1 FROM {table.sql} WHERE {text} IS NOT NULL AND {number} IS NULL LIMIT 1"
        if run(db, dates, table.name):
            return cls(column, f"epoch(TRY_CAST({text} AS TIMESTAMP))", True)
        return cls(column, number, False)

    def end_of(self, db: DuckDBPyConnection, until: str) -> float:
        """The first time after ``until``; a date lasts until its end."""
        plain = until.strip()
        if not self.as_dates:
            try:
                return math.nextafter(float(plain), math.inf)
            except ValueError:
                raise DataError(f"until must be a number (--until), as those in '{self.column}' are, not '{until}'") from None
        span, first = "1 MICROSECOND", plain
        if _DATE.fullmatch(plain):
            span, first = _SPANS[len(plain)], plain + "-01-01"[: 10 - len(plain)]
        ((end,),) = run(db, f"SELECT epoch(TRY_CAST({quoted(first)} AS TIMESTAMP) + INTERVAL {span})", "until")
        if end is None:
            raise DataError(f"until must be a date such as 2020-12-31 (--until), not '{one_line(until, 80)}'")
        return float(end)


def keep_until(db: DuckDBPyConnection, table: Table, times: EdgeTimes, until: str) -> list[str]:
    """Remove edges from the SQL table ``edges`` whose ``moment`` is later; a note says how many there were."""
    end = times.end_of(db, until)
    ((later, rows),) = run(db, f"SELECT count(*) FILTER (moment >= {end!r}), count(*) FROM edges", table.name)
    if later == rows:
        raise DataError(f"{table.name}: all its edges are later than {until}, by '{times.column}'; choose a later --until")
    run(db, f"DELETE FROM edges WHERE moment >= {end!r}", table.name)
    return [f"{table.name}: left out: {plural(later, 'edge')} of {rows:,} after {until}"] if later else []


def fade_edges(db: DuckDBPyConnection, table: Table, times: EdgeTimes, half_life: float, until: str | None) -> None:
    """Halve the weights ``w`` of the SQL table ``edges`` for each half-life of their age, as of ``until`` or the last edge."""
    unit = half_life * (_DAY if times.as_dates else 1.0)
    if until is None:
        ((now,),) = run(db, "SELECT max(moment) FROM edges", table.name)
    else:
        now = times.end_of(db, until)
    run(db, f"UPDATE edges SET w = w * pow(0.5, ({now!r} - moment) / {unit!r})", table.name)


def balance_kinds(db: DuckDBPyConnection, table: Table, known: Mapping[str, float]) -> dict[str, float]:
    """Multiply the weights ``w`` of the SQL table ``edges`` by one number for each ``kind``; returns these numbers.

    Each kind then has the same total weight, and all together have the total of before. Numbers that are known from an earlier
    graph stay as they are, and edges of a kind that it does not have are an error.
    """
    totals = dict(run(db, "SELECT kind, sum(w) FROM edges GROUP BY kind ORDER BY kind", table.name))
    if known and (new := [kind for kind in totals if kind not in known]):
        kinds = ", ".join(f"'{kind}'" for kind in known)
        raise DataError(f"{table.name}: the earlier graph has no edges of the kind '{one_line(new[0], 80)}', only {kinds}")
    share = sum(totals.values()) / len(totals)
    factors = dict(known) or {kind: share / total if total else 1.0 for kind, total in totals.items()}
    cases = " ".join(f"WHEN {quoted(kind)} THEN {factors[kind]!r}" for kind in totals)
    run(db, f"UPDATE edges SET w = w * CASE kind {cases} END", table.name)
    return factors

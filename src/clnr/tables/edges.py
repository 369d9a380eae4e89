"""Edges of tables: staged as rows, merged, and written by target and by source."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clnr.errors import DataError, one_line, option
from clnr.graph.csr import CSR
from clnr.support.humanize import plural
from clnr.tables.io.open import Table
from clnr.tables.io.query import file_in_sql
from clnr.tables.io.sql import (
    MISSING_WORDS,
    Connection,
    as_text,
    identifier,
    plain_id,
    quoted,
    run,
    same_sum,
    stream_arrow,
    trimmed,
)
from clnr.tables.kinds import NamedTable, node_id
from clnr.tables.roles import EdgeRoles
from clnr.tables.table_arguments import TableArguments

Staged = Sequence[tuple[NamedTable, EdgeRoles]]
LARGEST_WEIGHT = float(np.finfo(np.float32).max)
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
# How long a date lasts, by its number of letters: a year, a month or a day.
_SPANS = {4: "1 YEAR", 7: "1 MONTH", 10: "1 DAY"}
_NODES_AT_A_TIME = 1 << 20


def edges_title(edges: Staged) -> str:
    """What to call the tables of edges in messages."""
    return ", ".join(named.table.name for named, _ in edges)


# -- rows -----------------------------------------------------------------------------------------------------------------


def stage_edges(db: Connection, edges: Staged, arguments: TableArguments) -> tuple[dict[str, int], list[str]]:
    """Make the SQL table ``edges`` of rows with both ends: s and t and, as far as there are, w and kind; counts, and notes."""
    weighted = any(roles.weight is not None for _, roles in edges)
    columns = ["s VARCHAR", "t VARCHAR", "w DOUBLE", "kind VARCHAR"]
    run(db, f"CREATE TEMP TABLE edges ({', '.join(columns)})", "edges")
    counts, notes = {"rows": 0, "missing": 0}, list[str]()
    for named, roles in edges:
        table = named.table
        prefixes = ["" if named.ends is None else f"{quoted(node_id(end, ''))} || " for end in named.ends or ("", "")]
        ends = [
            f"{prefix}{plain_id(table.columns[end].sql)}"
            for prefix, end in zip(prefixes, (roles.source, roles.target), strict=True)
        ]
        weight = "1.0::DOUBLE" if roles.weight is None else f"TRY_CAST({as_text(table.columns[roles.weight].sql)} AS DOUBLE)"
        kind = quoted(named.kind) if named.kind is not None else "NULL::VARCHAR"
        moment, end = _until(db, table, roles, arguments.until) if roles.until is not None else ("NULL::DOUBLE", 0.0)
        given, when = ("NULL" if each is None else as_text(table.columns[each].sql) for each in (roles.weight, roles.until))
        selected = f"{ends[0]} AS s, {ends[1]} AS t, {weight} AS w, {kind} AS kind, {moment} AS moment, {given} AS given"
        selected += f", {when} AS given_time"
        run(db, f"CREATE OR REPLACE TEMP TABLE staged AS SELECT {selected} FROM {table.sql}", table.name)
        ((rows,),) = run(db, "SELECT count(*) FROM staged", table.name)
        _check_rows(db, table, roles)
        if roles.until is not None:
            ((later,),) = run(db, f"SELECT count(*) FROM staged WHERE moment >= {end!r}", table.name)
            notes += [f"left out: {plural(later, 'edge')} of {rows:,} in {table.name} after {arguments.until}"] if later else []
        kept = f"s IS NOT NULL AND t IS NOT NULL{'' if roles.until is None else f' AND moment < {end!r}'}"
        ((missing,),) = run(db, "SELECT count(*) FROM staged WHERE s IS NULL OR t IS NULL", table.name)
        if missing:
            counts["missing"] += missing
            notes.append(_about_missing(db, table, roles, missing, rows))
        counts["rows"] += rows
        run(db, f"INSERT INTO edges SELECT s, t, w, kind FROM staged WHERE {kept}", table.name)
        run(db, "DROP TABLE staged", table.name)
    if not run(db, "SELECT 1 FROM edges LIMIT 1", "edges"):
        raise DataError(f"{edges_title(edges)}: {'; '.join(['it has no edges', *notes])}")
    if not weighted:
        run(db, "ALTER TABLE edges DROP w", "edges")
    return counts, notes


def _about_missing(db: Connection, table: Table, roles: EdgeRoles, missing: int, rows: int) -> str:
    """How many edges lack an end, and by which words."""
    words = dict[str, int]()
    for end in (roles.source, roles.target):
        word = trimmed(table.columns[end].sql)
        sql = f"SELECT {word}, count(*) FROM {table.raw} WHERE {word} IS NULL OR {word} IN {MISSING_WORDS} GROUP BY 1"
        for word, count in run(db, sql, table.name):
            name = word or "empty"
            words[name] = words.get(name, 0) + count
    found = ", ".join(f"{word} in {count:,}" for word, count in sorted(words.items(), key=lambda each: (-each[1], each[0])))
    return f"left out: {plural(missing, 'edge')} of {rows:,} in {table.name} without an end, which is {found}"


def _check_rows(db: Connection, table: Table, roles: EdgeRoles) -> None:
    """Raise on the first row whose weight or time cannot be right."""
    wrong = list[tuple[str, str, str, str]]()
    if roles.weight is not None:
        of_weight = f"'{roles.weight}', taken as the weight,"
        no_number = f"w IS NULL OR isnan(w) OR abs(w) > {LARGEST_WEIGHT!r}"
        wrong += [
            (of_weight, "given", "given IS NULL", _filling(table, roles.weight)),
            (of_weight, "given", no_number, "weights are numbers from 0 on"),
            (of_weight, "given", "w < 0", "a weight says how close two nodes are: leave such edges out by a query"),
        ]
    if roles.until is not None:
        no_time = "moment IS NULL OR NOT isfinite(moment)"
        wrong.append((f"'{roles.until}'", "given_time", no_time, "times are dates such as 2020-12-31, or numbers"))
    for column, given, test, cure in wrong:
        numbered = "(SELECT *, row_number() OVER () AS row FROM staged)"
        sql = f"SELECT {given}, row FROM {numbered} WHERE ({test}) AND s IS NOT NULL AND t IS NOT NULL"
        for value, row in run(db, f"{sql} ORDER BY row LIMIT 1", table.name):
            what = "missing" if value is None else f"'{one_line(value, 40)}'"
            raise DataError(f"{table.name}: {column} is {what} in row {row:,}; {cure}")


def _filling(table: Table, weight: str) -> str:
    """The query that reads a missing weight as 1."""
    if table.name.startswith("the ") or not table.has_header:
        return "fill it in, or leave such rows out"
    w = weight if weight.isidentifier() else identifier(weight)
    query = f"SELECT * REPLACE (coalesce(TRY_CAST({w} AS DOUBLE), 1) AS {w}) FROM {file_in_sql(table.name)}"
    return f"fill it in, such as by 1: {option('edges', query)}"


def _until(db: Connection, table: Table, roles: EdgeRoles, until: str | None) -> tuple[str, float]:
    """The time of a row in SQL, and the first time after ``until``; a date lasts until its end."""
    column, last = table.columns[str(roles.until)], str(until).rpartition("=")[2].strip()
    text = as_text(column.sql)
    number = f"TRY_CAST({text} AS DOUBLE)"
    ((numeric,),) = run(db, f"SELECT count({text}) = count({number}) FROM {table.sql}", table.name)
    if numeric:
        with contextlib.suppress(ValueError):
            if math.isfinite(float(last)):
                return number, math.nextafter(float(last), math.inf)
        raise DataError(f"{option('until')} must be a number, like those in '{roles.until}', not '{one_line(last, 80)}'")
    if not _DATE.fullmatch(last):
        raise DataError(f"{option('until')} must be a date such as 2020-12-31, not '{one_line(last, 80)}'")
    day = f"TRY_CAST({quoted(f'{last}-01-01'[:10] if len(last) == 4 else f'{last}-01'[:10])} AS TIMESTAMP)"
    ((end,),) = run(db, f"SELECT epoch({day} + INTERVAL {_SPANS[len(last)]})", table.name)
    if end is None:
        raise DataError(f"{option('until')}: there is no day {last}")
    return f"epoch(TRY_CAST({text} AS TIMESTAMP))", float(end)


# -- distinct edges ---------------------------------------------------------------------------------------------------------


def merge_edges(
    db: Connection, title: str, arguments: TableArguments, counts: dict[str, int]
) -> tuple[dict[str, float], list[str]]:
    """Make the SQL table ``distinct_edges`` of ``edges`` between nodes of ``ids``: a, b and, with weights or kinds, w.

    Weights of repeated edges are added, if there are any. An undirected edge that is given both ways has the larger weight of
    the two, and is there once, the lower index first. All this is done for each kind; then an edge of several kinds has the
    sum of their weights. Returns what the weights of each kind were multiplied by, and notes.
    """
    there = {name for name, *_ in run(db, "DESCRIBE edges", title)}
    weighted, kinds, directed = "w" in there, arguments.has_edge_kinds, arguments.is_directed
    more = f"{', w' if weighted else ''}{', kind' if kinds else ''}"
    joined = f"SELECT a.i AS a, b.i AS b{more} FROM edges JOIN ids a ON s = a.id JOIN ids b ON t = b.id"
    run(db, f"CREATE TEMP TABLE indexed AS {joined}", title)
    run(db, "DROP TABLE edges", title)
    ((counts["loops"],),) = run(db, "SELECT count(*) FROM indexed WHERE a = b", title)
    ends = "a, b" if directed else "least(a, b) AS a, greatest(a, b) AS b"
    group, by = (f"{ends}, kind", "1, 2, 3") if kinds else (ends, "1, 2")
    measures = [f"{_either('count(*)', directed)} AS n", "count(*) AS times"]
    if weighted:
        total, unit = same_sum(db, "w", "indexed", title)
        measures.append(f"{_either(total, directed)} * {unit} AS w")
    elif kinds:
        measures.append("1.0::DOUBLE AS w")
    run(
        db,
        f"CREATE TEMP TABLE distinct_edges AS SELECT {group}, {', '.join(measures)} FROM indexed WHERE a <> b GROUP BY {by}",
        title,
    )
    run(db, "DROP TABLE indexed", title)
    ((edges, given, rows),) = run(
        db, "SELECT count(*), coalesce(sum(n), 0), coalesce(sum(times), 0) FROM distinct_edges", title
    )
    counts["repeats"] = int(rows) - int(edges)
    notes = list[str]()
    if given > edges:
        how = "their weights are added" if weighted else "each edge counts once"
        notes.append(f"merged: {plural(int(given - edges), 'row')} repeating an edge; {how}")
    if rows > given:
        how = ", and the larger weight counts" if weighted else ""
        notes.append(f"merged: {plural(int(rows - given), 'row')} repeating an edge in reverse; the graph is undirected{how}")
    factors: dict[str, float] = {}
    if kinds:
        known = {} if arguments.base is None else dict(arguments.base.info.edge_kinds)
        factors = _multiplied(db, title, known) if known else _normalised(db, title, directed)
        total = " * ".join(same_sum(db, "w", "distinct_edges", title))
        run(db, f"CREATE TEMP TABLE merged AS SELECT a, b, {total} AS w FROM distinct_edges GROUP BY a, b", title)
        run(db, "DROP TABLE distinct_edges", title)
        run(db, "ALTER TABLE merged RENAME TO distinct_edges", title)
    if weighted or kinds:
        ((largest,),) = run(db, "SELECT coalesce(max(w), 0) FROM distinct_edges", title)
        if largest > LARGEST_WEIGHT:
            raise DataError(f"{title}: the weights of a repeated edge add up to more than float32 holds; make them smaller")
    if counts["loops"]:
        notes.append(f"{title}: left out: {plural(counts['loops'], 'edge')} from a node to itself")
    return factors, notes


def leave_out_zeros(db: Connection, title: str, extends: bool) -> list[str]:
    """Leave out the rows of ``distinct_edges`` with weight 0 in float32, with a note; it is an error if no other is there."""
    zeros = 0
    if "w" in {name for name, *_ in run(db, "DESCRIBE distinct_edges", title)}:
        ((zeros,),) = run(db, "SELECT count(*) FROM distinct_edges WHERE CAST(w AS FLOAT) = 0", title)
        run(db, "DELETE FROM distinct_edges WHERE CAST(w AS FLOAT) = 0", title)
    if not extends and not run(db, "SELECT 1 FROM distinct_edges LIMIT 1", title):
        raise DataError(f"{title}: there are no edges between two different nodes")
    return [f"{title}: {plural(zeros, 'edge')} of weight 0 left out"] if zeros else []


def _either(aggregate: str, directed: bool) -> str:
    """An aggregate of an edge's rows; for an undirected edge, the larger one of its two directions."""
    if directed:
        return aggregate
    one, other = (f"coalesce({aggregate} FILTER ({test}), 0)" for test in ("indexed.a < indexed.b", "indexed.a > indexed.b"))
    return f"greatest({one}, {other})"


def _normalised(db: Connection, title: str, directed: bool) -> dict[str, float]:
    """Normalise the weights of ``distinct_edges`` for each kind by itself; what each was multiplied by.

    If d is the total weight of a node's edges, and d_k that of those of kind k, an edge (i, j) of kind k is multiplied by
    sqrt(d_i d_j / (d_ki d_kj)): once a convolution has divided by the degrees of both ends, this is the mean of the normalised
    adjacency matrices of all kinds. In a directed graph, d is of outgoing edges at sources, and of incoming ones at targets.
    One number for all keeps the total weight, so that edges of a single kind stay as they are. What a kind was multiplied by is
    the mean over its edges, by weight.
    """
    both = "SELECT a AS node, kind, w FROM distinct_edges", "SELECT b AS node, kind, w FROM distinct_edges"
    for name, ends in zip("ab", both if directed else 2 * [" UNION ALL ".join(both)], strict=True):
        total = " * ".join(same_sum(db, "w", "distinct_edges", title))
        totals = f"SELECT node, kind, {total} AS d FROM ({ends}) GROUP BY node, kind"
        run(db, f"CREATE TEMP TABLE totals AS {totals}", title)
        whole = " * ".join(same_sum(db, "d", "totals", title))
        of_nodes = f"SELECT node, {whole} AS whole FROM totals GROUP BY node"
        factors = f"SELECT node, kind, sqrt(whole / nullif(d, 0)) AS factor FROM totals JOIN ({of_nodes}) USING (node)"
        run(db, f"CREATE TEMP TABLE factors_{name} AS {factors}", title)
        run(db, "DROP TABLE totals", title)
    joins = (f"JOIN factors_{name} AS {name} ON {name}.node = e.{name} AND {name}.kind = e.kind" for name in "ab")
    columns = "e.a, e.b, e.kind, e.w AS given, coalesce(e.w * a.factor * b.factor, 0) AS w"
    run(db, f"CREATE TEMP TABLE normalised AS SELECT {columns} FROM distinct_edges AS e {' '.join(joins)}", title)
    sums = ", ".join(" * ".join(same_sum(db, column, "normalised", title)) for column in ("given", "w"))
    by_kind = run(db, f"SELECT kind, {sums} FROM normalised GROUP BY kind ORDER BY kind", title)
    scale = _rounded(math.fsum(before for _, before, _ in by_kind), math.fsum(after for _, _, after in by_kind))
    for name in ("distinct_edges", "factors_a", "factors_b"):
        run(db, f"DROP TABLE {name}", title)
    run(db, f"CREATE TEMP TABLE distinct_edges AS SELECT a, b, kind, w * {scale!r} AS w FROM normalised", title)
    run(db, "DROP TABLE normalised", title)
    return {kind: _rounded(after * scale, before) for kind, before, after in by_kind}


def _multiplied(db: Connection, title: str, known: Mapping[str, float]) -> dict[str, float]:
    """Multiply the weights of ``distinct_edges`` as those of an earlier graph; a new kind is an error."""
    kinds = [kind for (kind,) in run(db, "SELECT DISTINCT kind FROM distinct_edges ORDER BY kind", title)]
    if new := [kind for kind in kinds if kind not in known]:
        there = ", ".join(f"'{kind}'" for kind in known)
        raise DataError(f"{title}: the earlier graph has no edges of the kind '{one_line(new[0], 80)}', only {there}")
    if cases := " ".join(f"WHEN {quoted(kind)} THEN {known[kind]!r}" for kind in kinds):
        run(db, f"UPDATE distinct_edges SET w = w * CASE kind {cases} END", title)
    return dict(known)


def _rounded(a: float, b: float) -> float:
    """A quotient to six digits; 1 if there is nothing."""
    return float(f"{a / b:.6g}") if a and b else 1.0


# -- arrays -----------------------------------------------------------------------------------------------------------------


def write_edges(db: Connection, writer: Any, nodes: int, directed: bool, title: str) -> int:
    """Write ``distinct_edges``, which are dropped, by target and, if they are directed, by source; returns their number."""
    weighted = "w" in {name for name, *_ in run(db, "DESCRIBE distinct_edges", title)}
    columns = f"c{', w' if weighted else ''}"
    ways = {"incoming": [("b", "a")], "outgoing": [("a", "b")]} if directed else {"incoming": [("a", "b"), ("b", "a")]}
    count = 0
    for way, pairs in ways.items():
        more = ", CAST(w AS FLOAT) AS w" if weighted else ""
        rows = (f"SELECT CAST({r} AS INTEGER) AS r, CAST({c} AS INTEGER) AS c{more} FROM distinct_edges" for r, c in pairs)
        sql = f"SELECT r, {columns} FROM ({' UNION ALL '.join(rows)}) ORDER BY r, c"
        count = _write_csr(writer, way, stream_arrow(db, sql, title), nodes, weighted)
    run(db, "DROP TABLE distinct_edges", title)
    return count


def _write_csr(writer: Any, name: str, batches: Iterator[list[Any]], nodes: int, weighted: bool) -> int:
    """Edges that come in the order of rows and columns; returns their number."""
    parts = CSR._fields if weighted else CSR._fields[:2]
    with contextlib.ExitStack() as stack:
        ends, *columns = [stack.enter_context(writer.array(f"{name}.{part}")) for part in parts]
        ends(np.zeros(1, np.int64))
        total, node = 0, 0
        for row, *values in (batch for batch in batches if len(batch[0])):
            rows = row.to_numpy()
            # The last node of a batch may have more edges in the next one.
            for first, last in node_ranges(node, int(rows[-1])):
                ends(total + np.searchsorted(rows, np.arange(first, last), "right"))
            node, total = int(rows[-1]), total + len(rows)
            for append, column in zip(columns, values, strict=True):
                append(column.to_numpy())
        for first, last in node_ranges(node, nodes):
            ends(np.full(last - first, total))
    return total


def node_ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Consecutive nodes in parts of a bounded size."""
    for start in range(first, last, _NODES_AT_A_TIME):
        yield start, min(start + _NODES_AT_A_TIME, last)

"""Tables of edges loaded into DuckDB, their weights, kinds and times checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from clnr.errors import DataError, one_line
from clnr.support.humanize import plural
from clnr.tables.columns.columns import check_filled, check_rows, id_sql
from clnr.tables.columns.notations import rewrite_hint, usual_sql
from clnr.tables.edges.edge_list import LARGEST_WEIGHT, MergeForm
from clnr.tables.edges.edge_weighting import EdgeTimes, fade_edges, keep_until
from clnr.tables.edges.mistaken_edges import check_guessed_ends, one_sort_notes
from clnr.tables.io.source import Table
from clnr.tables.io.sql import quoted, run, trimmed
from clnr.tables.kinds.table_kinds import NamedTable, node_id
from clnr.tables.roles.roles import Roles
from clnr.tables.table_arguments import TableArguments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TablesAndRoles = tuple[tuple[NamedTable, Roles], ...]
"""Tables of edges or of nodes, and which column of each holds what."""


class _EdgeForm(NamedTuple):
    """What all tables of edges are read to.

    Attributes:
        whole: Whether ids are integers.
        weighted: Whether edges have weights.
        kinds: Whether they are of several kinds.
        negative: What is done with negative weights, one of ``NEGATIVE_WEIGHTS``.
    """

    whole: bool
    weighted: bool
    kinds: bool
    negative: str


def _load_table(
    db: DuckDBPyConnection, edges: NamedTable, roles: Roles, form: _EdgeForm, times: EdgeTimes | None, into: str = "edges"
) -> list[str]:
    """Load the SQL table ``edges``, in the order of rows: sources s, targets t, and as far as there are, w, kind and moment.

    Returns notes about negative weights.

    Args:
        db: The connection.
        edges: The table.
        roles: Which column holds what.
        form: What it is read to.
        times: How its times are read, if there are any.
        into: Another name for the SQL table.
    """
    table, a, b, w = edges.table, roles.source, roles.target, roles.weight
    columns = [f"{_end_sql(edges, column, end, form.whole)} AS {'st'[end]}" for end, column in enumerate((a, b))]
    if w is not None:
        c = table.columns[w].sql
        number = c if roles.weight_notation == "" else usual_sql(trimmed(c), roles.weight_notation)
        columns.append(f"TRY_CAST({number} AS DOUBLE) AS w")
        right = f"isfinite(w) AND w BETWEEN 0 AND {LARGEST_WEIGHT!r}"
        columns.append(f"CASE WHEN {right} THEN NULL ELSE {trimmed(c)} END AS given")
    elif form.weighted:
        columns.append("1.0::DOUBLE AS w")
    if form.kinds:
        kind = "NULL::VARCHAR" if edges.kind is None else quoted(edges.kind)
        columns.append(f"{kind if roles.edge_type is None else trimmed(table.columns[roles.edge_type].sql)} AS kind")
    if times is not None:
        columns.append(f"{times.sql} AS moment")
        columns.append(f"CASE WHEN moment IS NULL THEN {trimmed(table.columns[times.column].sql)} END AS no_time")
    run(db, f"CREATE TEMP TABLE {into} AS SELECT {', '.join(columns)} FROM {table.sql}", table.name)
    if not run(db, f"SELECT 1 FROM {into} LIMIT 1", table.name):
        raise DataError(f"{table.name}: there is no edge in it")
    for column, empty in ((a, "s IS NULL"), (b, "t IS NULL"), (roles.edge_type, "kind IS NULL")):
        if column is not None:
            check_filled(db, table, into, empty, column)
    if w is not None:
        out = f"--ignore {w} leaves weights out"
        check_filled(
            db, table, into, "w IS NULL AND given IS NULL", w, f"--drop-empty (drop_empty=True) leaves such rows out, {out}"
        )
        wrong = f"w IS NULL OR isnan(w) OR abs(w) > {LARGEST_WEIGHT!r}"
        out = rewrite_hint(db, table, w) or out
        check_rows(db, table, into, wrong, w, "is no weight; weights are numbers from 0 on, such as 0.5", out, "given")
    if times is not None:
        if not run(db, f"SELECT 1 FROM {into} WHERE isfinite(moment) LIMIT 1", table.name):
            ((first,),) = run(db, f"SELECT no_time FROM {into} LIMIT 1", table.name)
            raise DataError(
                f"{table.name}: '{times.column}' holds no times, such as '{one_line(str(first), 80)}' in row 1; they are "
                "dates such as 2020-12-31, or numbers; name another column: --edge-time"
            )
        cure = "correct it, or leave the row out"
        check_rows(db, table, into, "moment IS NULL OR NOT isfinite(moment)", times.column, "is no time", cure, "no_time")
    return [] if w is None else _negative_weights(db, table, w, form.negative, into)


def _check_weights(db: DuckDBPyConnection, table: Table, column: str, rows: str) -> None:
    """Raise if all weights of the SQL table ``rows`` are 0, so that there is no edge."""
    if not run(db, f"SELECT 1 FROM {rows} WHERE w <> 0 LIMIT 1", table.name):
        raise DataError(
            f"{table.name}: '{column}' is 0 in all rows, and an edge of weight 0 is none; --ignore {column} leaves weights out"
        )


def _end_sql(edges: NamedTable, column: str, end: int, whole: bool) -> str:
    """The id at an end of edges; with that kind of nodes, where nodes have kinds."""
    plain = id_sql(edges.table, column, whole)
    return plain if edges.ends is None else f"{quoted(node_id(edges.ends[end], ''))} || {plain}"


def _negative_weights(db: DuckDBPyConnection, table: Table, weight: str, choice: str, rows: str) -> list[str]:
    """Refuse negative weights, leave their edges out, or make these a kind of their own, with weights above 0."""
    if choice == "refuse":
        wrong = "is negative, and weights say how close two nodes are"
        cure = "--negative-weights drop leaves such edges out, --negative-weights kind makes them a kind of their own"
        check_rows(db, table, rows, "w < 0", weight, wrong, cure, "given")
        return []
    ((below, count),) = run(db, f"SELECT count(*) FILTER (w < 0), count(*) FROM {rows}", table.name)
    if choice == "kind":
        sign = "CASE WHEN w < 0 THEN 'negative' ELSE 'positive' END"
        run(db, f"UPDATE {rows} SET kind = coalesce(kind || ' ', '') || {sign}, w = abs(w)", table.name)
        kind = f"{table.name}: edges of a kind of their own, since their weights are negative: {below:,} of {count:,}"
        return [kind] if below else []
    if below == count:
        raise DataError(f"{table.name}: all its weights are negative, so that no edge is left; choose --negative-weights kind")
    run(db, f"DELETE FROM {rows} WHERE w < 0", table.name)
    return [f"{table.name}: left out: {plural(below, 'edge')} of {count:,} with a negative weight"] if below else []


def edges_title(edges: TablesAndRoles) -> str:
    """What to call tables of edges in messages."""
    return ", ".join(each.table.name for each, _ in edges)


def load_edges(
    db: DuckDBPyConnection, edges: TablesAndRoles, whole: bool, arguments: TableArguments, remarks: list[str], has_nodes: bool
) -> tuple[MergeForm, float]:
    """Load the SQL table ``edges``, without those after ``until``, weights faded; how its rows are merged, and ``fading``."""
    earlier = None if arguments.base is None else arguments.base.ingest_report
    known, fading = ({}, 1.0) if earlier is None else (earlier.edge_types, earlier.fading)
    if not edges:
        return MergeForm(False, arguments.is_directed), fading
    # Edges of an earlier graph may be of kinds by the signs of their weights alone.
    by_sign = arguments.with_negative_weights == "kind" and any(each.kind is None for each, _ in edges)
    asked = (arguments.negative_weights or "refuse") != "refuse"
    if (asked or by_sign) and not any(roles.weight for _, roles in edges):
        raise DataError("negative_weights needs weights, and there is no column of them: name it (--weight)")
    weighted = arguments.has_edge_kinds or any(roles.weighted for _, roles in edges)
    form = _EdgeForm(whole, weighted, arguments.has_edge_kinds, arguments.with_negative_weights)
    all_times = [
        (each, None if roles.edge_time is None else EdgeTimes.of(db, each.table, roles.edge_time)) for each, roles in edges
    ]
    if len({None if times is None else times.as_dates for _, times in all_times}) > 1:
        dates, numbers = (
            next(e.table.name for e, times in all_times if times and times.as_dates is way) for way in (True, False)
        )
        raise DataError(f"the times of edges are dates in {dates} and numbers in {numbers}; write them alike")
    remarks += [f"{each.table.name}: {times.note}" for each, times in all_times if times is not None and times.note]
    negative = False
    for number, ((each, roles), (_, times)) in enumerate(zip(edges, all_times, strict=True)):
        into = "edges" if len(edges) == 1 else "some_edges"
        about_negative = _load_table(db, each, roles, form, times, into)
        negative = negative or bool(about_negative)
        remarks += about_negative
        if roles.guessed and not has_nodes and each.ends is None:
            remarks += check_guessed_ends(db, each.table, roles, into)
        if roles.guessed and whole and each.ends is None and earlier is None:
            remarks += one_sort_notes(db, each.table, roles, into)
        if roles.weight is not None and earlier is None:
            _check_weights(db, each.table, roles.weight, into)
        if len(edges) > 1:
            _append_edges(db, form, times is not None, number == 0, each.table.name)
    if form.negative != "refuse" and not negative and earlier is None:
        remarks.append(f"{edges_title(edges)}: no weight is negative, so there is nothing for --negative-weights to do")
    times = all_times[0][1]
    if times is not None and arguments.until is not None:
        remarks += keep_until(db, edges_title(edges), times, arguments.until)
    if times is not None and arguments.half_life is not None:
        kept = None if earlier is None else fading
        fading, lines = fade_edges(db, edges_title(edges), times, arguments.half_life, arguments.until, kept)
        remarks += lines
    adds = any(roles.weight is not None or roles.fading for _, roles in edges)
    kinds, joined = known if arguments.has_edge_kinds else None, tuple(each.ends for each, _ in edges if each.ends is not None)
    ends = f"'{edges[0][1].source}' and '{edges[0][1].target}'" if len(edges) == 1 else "these"
    return MergeForm(weighted, arguments.is_directed, kinds, adds, whole=whole, joined=joined, ends=ends), fading


def _append_edges(db: DuckDBPyConnection, form: _EdgeForm, timed: bool, first: bool, name: str) -> None:
    """Move the SQL table ``some_edges`` to the end of ``edges``."""
    there = {"s": True, "t": True, "w": form.weighted, "kind": form.kinds, "moment": timed}
    rows = f"SELECT {', '.join(column for column, has in there.items() if has)} FROM some_edges"
    run(db, f"CREATE TEMP TABLE edges AS {rows}" if first else f"INSERT INTO edges {rows}", name)
    run(db, "DROP TABLE some_edges", name)

"""Tables of edges loaded into DuckDB, their weights, kinds and times checked."""

from __future__ import annotations

from clnr.errors import DataError, one_line, option
from clnr.tables.columns.node_columns import check_filled, check_rows, id_sql
from clnr.tables.columns.notations import unclear_number
from clnr.tables.edges.edge_list import LARGEST_WEIGHT, MergeForm
from clnr.tables.edges.edge_weighting import EdgeTimes, keep_until
from clnr.tables.io.sql import Connection, quoted, run, trimmed
from clnr.tables.roles.column_names import node_id
from clnr.tables.roles.roles import Roles
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_kinds import NamedTable

TablesAndRoles = tuple[tuple[NamedTable, Roles], ...]
"""Tables of edges or of nodes, and which column of each holds what."""


def _load_table(db: Connection, edges: NamedTable, roles: Roles, form: MergeForm, times: EdgeTimes | None, into: str) -> None:
    """Load an SQL table of edges, in the order of rows: sources s, targets t, and as far as there are, w, kind and moment."""
    table, a, b, w = edges.table, roles.source, roles.target, roles.weight
    columns = []
    for end, name in enumerate((a, b)):
        of_kind = "" if edges.ends is None else f"{quoted(node_id(edges.ends[end], ''))} || "
        columns.append(f"{of_kind}{id_sql(table, name, form.whole)} AS {'st'[end]}")
    if w is not None:
        c = table.columns[w].sql
        columns.append(f"TRY_CAST({roles.weight_unit.plain(trimmed(c)) if roles.weight_unit.words else c} AS DOUBLE) AS w")
        right = f"isfinite(w) AND w BETWEEN 0 AND {LARGEST_WEIGHT!r}"
        columns.append(f"CASE WHEN {right} THEN NULL ELSE {trimmed(c)} END AS given")
    elif form.weighted:
        columns.append("1.0::DOUBLE AS w")
    if form.kinds is not None:
        kind = "NULL::VARCHAR" if edges.kind is None else quoted(edges.kind)
        columns.append(f"{kind if roles.edge_type is None else trimmed(table.columns[roles.edge_type].sql)} AS kind")
    if times is not None:
        columns.append(f"{times.sql} AS moment")
        columns.append(f"CASE WHEN moment IS NULL THEN {trimmed(table.columns[times.column].sql)} END AS no_time")
    run(db, f"CREATE TEMP TABLE {into} AS SELECT {', '.join(columns)} FROM {table.sql}", table.name)
    if not run(db, f"SELECT 1 FROM {into} LIMIT 1", table.name):
        raise DataError(f"{table.name}: it has no edges")
    for column, empty in ((a, "s IS NULL"), (b, "t IS NULL"), (roles.edge_type, "kind IS NULL")):
        if column is not None:
            check_filled(db, table, into, empty, column)
    if w is not None:
        out = f"{option('ignore', [w])} leaves weights out"
        check_filled(db, table, into, "w IS NULL AND given IS NULL", w, f"; {out}")
        wrong = f"w IS NULL OR isnan(w) OR abs(w) > {LARGEST_WEIGHT!r}"
        counts = f"arg_min(given, rowid) FILTER ({wrong}), count(*) FILTER ({wrong}), count(*)"
        ((value, unread, rows),) = run(db, f"SELECT {counts} FROM {into}", table.name)
        if unread:
            unclear = unclear_number(db, table, w)
            if not unclear and 2 * unread > rows:
                such = f"such as '{one_line(value, 80)}'; name another {option('weight')}, or {out}"
                raise DataError(f"{table.name}: '{w}' holds no numbers in {unread:,} of {rows:,} rows, {such}")
            out = unclear or f"correct it, or leave such rows out; {out}"
            check_rows(
                db, table, into, wrong, w, "is not a weight; weights are numbers of 0 or more, such as 0.5", out, "given"
            )
        below = "is negative, but a weight measures how close two nodes are"
        check_rows(db, table, into, "w < 0", w, below, "leave such edges out, or take their size: abs(weight)", "given")
    no_time = "moment IS NULL OR NOT isfinite(moment)"
    if times is not None and run(db, f"SELECT 1 FROM {into} WHERE {no_time} LIMIT 1", table.name):
        if not run(db, f"SELECT 1 FROM {into} WHERE isfinite(moment) LIMIT 1", table.name):
            ((first,),) = run(db, f"SELECT no_time FROM {into} LIMIT 1", table.name)
            raise DataError(
                f"{table.name}: '{times.column}' holds no times: row 1 has '{one_line(str(first), 80)}'; times are "
                f"dates such as 2020-12-31, or numbers; name another column: {option('until', 'COLUMN=DATE')}"
            )
        check_rows(db, table, into, no_time, times.column, "is not a time", "correct it, or leave the row out", "no_time")


def edges_title(edges: TablesAndRoles) -> str:
    """What to call tables of edges in messages."""
    return ", ".join(each.table.name for each, _ in edges)


def load_edges(db: Connection, edges: TablesAndRoles, whole: bool, arguments: TableArguments, remarks: list[str]) -> MergeForm:
    """Load the SQL table ``edges``, without those after ``until``; how its rows are merged."""
    earlier = None if arguments.base is None else arguments.base.ingest_report
    if not edges:
        return MergeForm(arguments.is_directed)
    known = {} if earlier is None else earlier.edge_types
    form = MergeForm(
        directed=arguments.is_directed,
        kinds=known if arguments.has_edge_kinds else None,
        adds=any(roles.weight is not None for _, roles in edges),
        whole=whole,
        joined=tuple(each.ends for each, _ in edges if each.ends is not None),
        ends=f"'{edges[0][1].source}' and '{edges[0][1].target}'" if len(edges) == 1 else "these",
    )
    all_times = [
        (each, None if roles.edge_time is None else EdgeTimes.of(db, each.table, roles.edge_time)) for each, roles in edges
    ]
    if len({None if times is None else times.as_dates for _, times in all_times}) > 1:
        dates, numbers = (next(e.table.name for e, each in all_times if each and each.as_dates is way) for way in (True, False))
        raise DataError(f"the times of edges are dates in {dates} and numbers in {numbers}; write them alike")
    remarks += [f"{each.table.name}: {times.note}" for each, times in all_times if times is not None and times.note]
    for number, ((each, roles), (_, times)) in enumerate(zip(edges, all_times, strict=True)):
        into, name = "edges" if len(edges) == 1 else "some_edges", each.table.name
        _load_table(db, each, roles, form, times, into)
        fresh = roles.weight is not None and earlier is None
        if fresh and not run(db, f"SELECT 1 FROM {into} WHERE w <> 0 LIMIT 1", name):
            out = f"{option('ignore', [roles.weight])} leaves weights out"
            raise DataError(f"{name}: '{roles.weight}' is 0 in all rows, and edges of weight 0 are dropped; {out}")
        if len(edges) > 1:
            has = {"w": form.weighted, "kind": form.kinds is not None, "moment": times is not None}
            rows = f"SELECT {', '.join(['s', 't', *(column for column in has if has[column])])} FROM some_edges"
            run(db, f"INSERT INTO edges {rows}" if number else f"CREATE TEMP TABLE edges AS {rows}", name)
            run(db, "DROP TABLE some_edges", name)
    if (times := all_times[0][1]) is not None:
        remarks += keep_until(db, edges_title(edges), times, arguments.last_time)
    return form

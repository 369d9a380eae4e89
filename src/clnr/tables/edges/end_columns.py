"""Which columns have the ends of edges, where no name tells: the first two, unless values show that these cannot be."""

from __future__ import annotations

import re
from itertools import combinations, islice

from clnr.errors import DataError
from clnr.support.arguments import command_with
from clnr.tables.columns.node_columns import id_sql, stacked_ids
from clnr.tables.columns.notations import find_notation
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, looks_like_datetime, run, trimmed
from clnr.tables.roles.roles import NOT_EDGES, Roles

# Smaller tables hardly tell.
_LEAST_ROWS = 10
# Rows whose values are compared, and the most columns, of edges and of nodes.
_FIRST_ROWS, _MOST_COLUMNS, _MOST_NODE_COLUMNS = 10_000, 12, 5
# Of an end, the node table has nearly all ids; of an id of edges, at most half. Of two ends, the larger shares half of its ids
# with the other; fewer values are categories.
_NEARLY_ALL, _HALF, _LEAST_VALUES = 0.95, 0.5, 5
# Names of columns that differ by these words alone: patient_from and patient_to.
_DIRECTIONS = {"from": "to", "von": "nach", "start": "end", "source": "target", "src": "dst", "origin": "destination"}


def find_ends(db: Connection, table: Table, roles: Roles, nodes: Table | None, key: str, has_nodes: bool) -> tuple[Roles, str]:
    """The roles of a table whose first two columns were taken for the ends of edges, and a note if two others are.

    If the first column is distinct in every row, it may have ids of the edges. Two others that hold ids of the node table,
    whose id column may be ``key``, are then taken; two that share values are an error with what to run. Without either, it is
    rather a table of nodes if the second column has none of these ids.
    """
    a, b = roles.source, roles.target
    is_distinct = all(_is_distinct(db, table, a, rows) for rows in (table.first_rows, table.sql))
    if is_distinct and (other := _other_ends(db, table, roles, nodes, key)):
        x, y, share = other
        why = f"{share or 'both hold ids of the nodes'}, and '{a}' is distinct in every row"
        if not share:
            note = f"ends of edges are read from '{x}' and '{y}': {why}; --source and --target override"
            return roles._replace(source=x, target=y), f"{table.name}: {note}"
        guessed = f"if the ends are '{a}' and '{b}', add --source '{a}' --target '{b}'; if not, run:"
        command = command_with({"--source": x, "--target": y}) or f"source={x!r}, target={y!r}"
        raise DataError(f"{table.name}: '{x}' and '{y}' may be the ends of edges: {why}; {guessed}", command)
    doubt = roles.doubt
    if table.is_text and not (doubt or has_nodes):
        doubt = _no_ids(db, table, a) or _no_ids(db, table, b) or ""
    if doubt:
        raise DataError(f"{table.name}: it looks like a table of nodes: {doubt}; {NOT_EDGES}")
    sources, targets = (f"(SELECT {id_sql(table, end, False)} AS id FROM {table.sql})" for end in (a, b))
    both = f"SELECT 1 FROM {sources} SEMI JOIN {targets} USING (id) LIMIT 1"
    if is_distinct and not has_nodes and not run(db, both, table.name):
        raise DataError(
            f"{table.name}: it may be a table of nodes: each row has another '{a}', and none of them is in '{b}'; if it is "
            f"one, give it as --nodes (nodes=); if its rows are edges, say so: --source '{a}' --target '{b}'"
        )
    return roles, ""


def _other_ends(db: Connection, table: Table, roles: Roles, nodes: Table | None, key: str) -> tuple[str, str, str] | None:
    """Two other columns that may have the ends, and which values they share; "" if the node table has their ids.

    Whole numbers may meet by chance, so that they must share many, or be called as ends are.
    """
    taken, title = (roles.source, roles.weight, roles.edge_type, roles.edge_time, *roles.ignored), table.name
    others = (name for name in table.columns if name not in taken and _may_have_ids(db, table, name))
    columns = [roles.source, *islice(others, _MOST_COLUMNS)]
    rows = stacked_ids(table, columns, _FIRST_ROWS)
    run(db, f"CREATE OR REPLACE TEMP TABLE end_ids AS SELECT DISTINCT id, place FROM ({rows}) WHERE id IS NOT NULL", title)
    joined = "end_ids a JOIN end_ids b ON a.id = b.id AND a.place <= b.place GROUP BY ALL"
    shared = {(a, b): count for a, b, count in run(db, f"SELECT a.place, b.place, count(*) FROM {joined}", title)}
    no_number = "SELECT DISTINCT place FROM end_ids WHERE NOT regexp_full_match(id, '-?[0-9]+')"
    words = {place for (place,) in run(db, no_number, title)}
    known: dict[int, int] = {}
    if nodes is not None:
        for column in dict.fromkeys((key, *islice(nodes.columns, _MOST_NODE_COLUMNS))):
            there = f"end_ids SEMI JOIN (SELECT {id_sql(nodes, column, False)} AS id FROM {nodes.sql}) USING (id)"
            by_place = dict(run(db, f"SELECT place, count(*) FROM {there} GROUP BY place", title))
            known = max(known, by_place, key=lambda each: sum(each.values()))
    nearly_all = {place for place, count in known.items() if count >= _NEARLY_ALL * shared[place, place]}
    named = {pair for pair in combinations(range(1, len(columns)), 2) if _are_called_ends(*(columns[place] for place in pair))}
    for x, y in sorted(combinations(range(1, len(columns)), 2), key=lambda pair: pair not in named):
        larger, both = max(shared.get((x, x), 0), shared.get((y, y), 0)), shared.get((x, y), 0)
        alike = both > 0 if (x, y) in named else larger >= _LEAST_VALUES and both >= _HALF * larger
        is_known = {x, y} <= nearly_all and (alike or {x, y} <= words)
        if known.get(0, 0) > _HALF * shared[0, 0] and not (is_known and (x, y) in named):
            continue
        apart = {x, y} <= words and (0, x) not in shared and (0, y) not in shared
        if is_known or (alike and (apart or (x, y) in named)):
            return columns[x], columns[y], "" if is_known else f"they share {both:,} of {larger:,} values"
    return None


def _are_called_ends(source: str, target: str) -> bool:
    """Whether the names of two columns differ by words for a start and an end alone."""
    names = (re.sub("(?<=[a-z])(?=[A-Z])", " ", each).casefold() for each in (source, target))
    a, b = (set(re.findall(r"[^\W_]+", name)) for name in names)
    return len(a - b) == len(b - a) == 1 and _DIRECTIONS.get(*(a - b)) in b - a


def _may_have_ids(db: Connection, table: Table, column: str) -> bool:
    kind = table.columns[column].kind
    if kind == "VARCHAR":
        return not (_no_ids(db, table, column) or find_notation(db, table, column))
    return kind == "UUID" or kind.endswith(("INT", "INTEGER"))


def _is_distinct(db: Connection, table: Table, column: str, rows: str) -> bool:
    counts = f"count(*) >= {_LEAST_ROWS} AND count(DISTINCT id) = count(*)"
    return bool(run(db, f"SELECT {counts} FROM (SELECT {id_sql(table, column, False)} AS id FROM {rows})", table.name)[0][0])


def _no_ids(db: Connection, table: Table, column: str) -> str | None:
    """Why a column of text hardly holds ids; None if it may."""
    text = trimmed(table.columns[column].sql)
    values = f"(SELECT {text} AS v, TRY_CAST(v AS DOUBLE) AS x FROM {table.sql} LIMIT {_FIRST_ROWS})"
    counts = (
        f"count(v), count(*) FILTER ({looks_like_datetime('v')}), count(x), count(*) FILTER (isfinite(x) AND x <> floor(x))"
    )
    ((present, dates, numbers, fractions),) = run(db, f"SELECT {counts} FROM {values}", table.name)
    if present and dates == present:
        return f"'{column}' holds dates, not ids"
    if fractions and numbers == present:
        return f"'{column}' holds fractions, not ids"
    return None

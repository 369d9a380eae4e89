"""Which columns have the ends of edges, where no name tells: the first two, unless values show that these cannot be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, islice
from typing import NamedTuple

from clnr.errors import DataError
from clnr.support.arguments import command_with
from clnr.tables.columns.node_columns import id_sql, stacked_ids
from clnr.tables.columns.notations import find_notation
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, looks_like_datetime, run, trimmed
from clnr.tables.roles.roles import NOT_EDGES, Roles

# Smaller tables hardly tell.
_LEAST_ROWS = 10
# Rows that are looked at first, which saves a scan of millions; and the most columns, of nodes as well.
_FIRST_ROWS, _MOST_COLUMNS, _MOST_NODE_COLUMNS = 10_000, 12, 5
# Of an end, the node table has nearly all ids; of an id of edges, at most half. Of two ends, the larger shares half of its ids
# with the other; fewer values are categories.
_NEARLY_ALL, _HALF, _LEAST_VALUES = 0.95, 0.5, 5
# Names of columns that differ by these words alone: patient_from and patient_to.
_DIRECTIONS = {"from": "to", "von": "nach", "start": "end", "source": "target", "src": "dst", "origin": "destination"}


class _Values(NamedTuple):
    """The distinct values of a column: how many, whether they are whole numbers, and the share that the node table has."""

    distinct: int
    whole: bool
    known: float


def other_ends(db: Connection, table: Table, roles: Roles, nodes: Table | None, key: str) -> tuple[Roles, str, str]:
    """The roles, a note and a hint: where the first column is distinct in every row, as ids of edges are, others may be ends.

    Two are taken, with a note, if they hold ids of the node table, whose id column may be ``key``, and the first does not.
    Else two columns that share values are an error with what to run, or a hint if the first column shares some of them, too.
    Numbers may share them by chance, so that names must agree.
    """
    a = roles.source
    if not _is_distinct(db, table, a, table.first_rows):
        return roles, "", ""
    taken = (a, roles.weight, roles.edge_type, roles.edge_time, *roles.ignored)
    others = (name for name in table.columns if name not in taken and _may_have_ids(db, table, name))
    columns = [a, *islice(others, _MOST_COLUMNS)]
    values, shared = _compare(db, table, columns, nodes, key)
    for x, y in sorted(combinations(range(1, len(columns)), 2), key=lambda pair: not _are_called_ends(columns, *pair)):
        named, whole = _are_called_ends(columns, x, y), values[x].whole and values[y].whole
        larger, both = max(values[x].distinct, values[y].distinct), shared.get((x, y), 0)
        alike = both > 0 if named else larger >= _LEAST_VALUES and both >= _HALF * larger
        known = min(values[x].known, values[y].known) >= _NEARLY_ALL and (alike or not whole)
        meets = (0, x) in shared or (0, y) in shared
        likely = known or (alike and (named or not (whole or meets)))
        if not likely or (values[0].known > _HALF and not (known and named)) or not _is_distinct(db, table, a, table.sql):
            continue
        ends, rows = f"'{columns[x]}' and '{columns[y]}'", f"'{a}' is distinct in every row"
        if known:
            note = f"ends of edges are read from {ends}: both hold ids of the nodes, and {rows}; --source and --target override"
            return roles._replace(source=columns[x], target=columns[y], doubt=""), f"{table.name}: {note}", ""
        command = command_with({"--source": columns[x], "--target": columns[y]})
        command = command or f"source={columns[x]!r}, target={columns[y]!r}"
        first_two = f"if the ends are '{a}' and '{roles.target}', add --source '{a}' --target '{roles.target}'; if not, run:"
        why = f"they share {both:,} of {larger:,} values, and {rows}, as ids of edges are"
        message = f"{table.name}: {ends} may be the ends of edges: {why}; {first_two}"
        if not meets:
            raise DataError(message, command)
        return roles, "", f"{message} {command}"
    return roles, "", ""


def _are_called_ends(columns: Sequence[str], source: int, target: int) -> bool:
    """Whether the names of two columns differ by words for a start and an end alone."""
    names = (re.sub("(?<=[a-z])(?=[A-Z])", " ", columns[each]).casefold() for each in (source, target))
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


def _compare(
    db: Connection, table: Table, columns: list[str], nodes: Table | None, key: str
) -> tuple[list[_Values], dict[tuple[int, int], int]]:
    """What is known of the values of each column, and how many of them two columns share, by their places."""
    rows, name = stacked_ids(table, columns, _FIRST_ROWS), table.name
    run(db, f"CREATE OR REPLACE TEMP TABLE end_ids AS SELECT DISTINCT id, place FROM ({rows}) WHERE id IS NOT NULL", name)
    pairs = "end_ids a JOIN end_ids b ON a.id = b.id AND a.place < b.place GROUP BY ALL"
    shared = {(a, b): count for a, b, count in run(db, f"SELECT a.place, b.place, count(*) FROM {pairs}", name)}
    counts = "count(*), bool_and(regexp_full_match(id, '-?[0-9]+'))"
    known: dict[int, int] = {}
    if nodes is not None:
        for column in dict.fromkeys((key, *islice(nodes.columns, _MOST_NODE_COLUMNS))):
            there = f"end_ids SEMI JOIN (SELECT {id_sql(nodes, column, False)} AS id FROM {nodes.sql}) USING (id)"
            of_column = dict(run(db, f"SELECT place, count(*) FROM {there} GROUP BY place", name))
            known = max(known, of_column, key=lambda each: sum(each.values()))
    values = {
        place: _Values(distinct, whole, known.get(place, 0) / distinct)
        for place, distinct, whole in run(db, f"SELECT place, {counts} FROM end_ids GROUP BY place", name)
    }
    return [values.get(place, _Values(0, False, 0.0)) for place in range(len(columns))], shared


def check_guessed_ends(db: Connection, table: Table, roles: Roles, edges: str) -> None:
    """Raise if a table whose first two columns were taken for the ends of edges is rather one of nodes.

    The ends are those of the SQL table that ``edges`` names. In a table of nodes, each row has an id of its own, and no other
    column has these ids.
    """
    a, b = roles.source, roles.target
    if table.is_text and (why := _no_ids(db, table, a) or _no_ids(db, table, b)):
        raise DataError(f"{table.name}: it looks like a table of nodes: {why}; {NOT_EDGES}")
    ((rows,),) = run(db, f"SELECT count(*) FROM {edges}", table.name)
    both_ways = f"SELECT 1 FROM {edges} SEMI JOIN (SELECT t AS s FROM {edges}) USING (s) LIMIT 1"
    if rows < _LEAST_ROWS or run(db, both_ways, table.name):
        return
    distinct = "SELECT count(*) = count(DISTINCT s) FROM (SELECT s FROM {} LIMIT {})"
    if all(run(db, distinct.format(edges, limit), table.name)[0][0] for limit in (_FIRST_ROWS, rows)):
        raise DataError(
            f"{table.name}: it may be a table of nodes: each row has another '{a}', and none of them is in '{b}'; if it is "
            f"one, give it as --nodes (nodes=); if its rows are edges, say so: --source '{a}' --target '{b}'"
        )


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

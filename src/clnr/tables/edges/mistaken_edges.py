"""Ends of edges that were guessed: a table of nodes given for one of edges, and two sorts of nodes that share numbers."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.tables.io.source import Table
from clnr.tables.io.sql import looks_like_datetime, run, trimmed
from clnr.tables.roles.roles import Roles

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Smaller tables hardly tell.
_LEAST_ROWS = 10
# So many rows are looked at first, which saves a scan of millions.
_FIRST_ROWS = 10_000
# Names of columns that say the same of two nodes, as citing and cited do; shorter ones say nothing.
_ALIKE_SHARE, _WORD_LETTERS = 0.5, 3


def check_guessed_ends(db: DuckDBPyConnection, table: Table, roles: Roles, edges: str) -> list[str]:
    """Raise if a table whose first two columns were taken for the ends of edges is rather one of nodes; else notes about it.

    The ends are those of the SQL table that ``edges`` names. In a table of nodes, each row has an id of its own, and no other
    column has these ids. Where nodes of one sort are linked to nodes of another, the columns share no id either, but one of the
    first sort mostly has several edges.
    """
    a, b = roles.source, roles.target
    if table.is_text and (why := _no_ids(db, table, a) or _no_ids(db, table, b)):
        raise DataError(
            f"{table.name}: it looks like a table of nodes: {why}; give it as --nodes (nodes=), or name the two columns of "
            "edges: --source, --target"
        )
    ((rows,),) = run(db, f"SELECT count(*) FROM {edges}", table.name)
    both_ways = f"SELECT 1 FROM {edges} SEMI JOIN (SELECT t AS s FROM {edges}) USING (s) LIMIT 1"
    if rows < _LEAST_ROWS or run(db, both_ways, table.name):
        return []
    if all(_distinct(db, f"(SELECT s FROM {edges} LIMIT {limit})", table) for limit in (_FIRST_ROWS, rows)):
        raise DataError(
            f"{table.name}: it may be a table of nodes: each row has another '{a}', and none of them is in '{b}'; if it is "
            f"one, give it as --nodes (nodes=); if its rows are edges, say so: --source '{a}' --target '{b}'"
        )
    kinds = "" if table.no_header else f"to tell these apart: --edges {a},NAME,{b}=FILE; "
    return [
        f"{table.name}: '{a}' and '{b}', its first columns, share no id, so edges link nodes of two sorts; {kinds}if other "
        "columns are the ends, name them: --source, --target; if its rows are nodes, give it as --nodes (nodes=)"
    ]


def one_sort_notes(db: DuckDBPyConnection, table: Table, roles: Roles, edges: str) -> list[str]:
    """A note if a whole number is a node of both columns, and their names are unlike: a user and an item, perhaps."""
    a, b = roles.source, roles.target
    alike = min(len(a), len(b)) < _WORD_LETTERS or SequenceMatcher(None, a.casefold(), b.casefold()).ratio() >= _ALIKE_SHARE
    if alike or table.no_header:
        return []
    both = f"{edges} SEMI JOIN (SELECT t AS s FROM {edges}) USING (s)"
    shared = run(db, f"SELECT s FROM {both} ORDER BY {edges}.rowid LIMIT 1", table.name)
    return [
        f"{table.name}: '{each}' in '{a}' and '{each}' in '{b}' is one node; if these are nodes of two sorts, say so: "
        f"--edges {a},NAME,{b}=FILE"
        for (each,) in shared
    ]


def _no_ids(db: DuckDBPyConnection, table: Table, column: str) -> str | None:
    """Why a column of text hardly holds ids; None if it may."""
    text = trimmed(table.columns[column].sql)
    values = f"(SELECT {text} AS v, TRY_CAST(v AS DOUBLE) AS x FROM {table.sql} LIMIT {_FIRST_ROWS})"
    counts = (
        f"count(v), count(*) FILTER ({looks_like_datetime('v')}), count(x), count(*) FILTER (isfinite(x) AND x <> floor(x))"
    )
    ((present, dates, numbers, fractions),) = run(db, f"SELECT {counts} FROM {values}", table.name)
    if present and dates == present:
        return f"'{column}' holds dates, which are no ids"
    if fractions and numbers == present:
        return f"'{column}' holds fractions, which are no ids"
    return None


def _distinct(db: DuckDBPyConnection, rows: str, table: Table) -> bool:
    ((distinct,),) = run(db, f"SELECT count(*) = count(DISTINCT s) FROM {rows}", table.name)
    return bool(distinct)

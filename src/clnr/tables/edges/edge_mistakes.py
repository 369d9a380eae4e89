"""Tables of edges that are hardly meant so: ids that no node has, and tables of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from clnr.errors import DataError, shorten
from clnr.tables.ingest_report import MUCH_SHARE
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, looks_like_datetime, quoted, run, trimmed
from clnr.tables.roles.column_names import node_id
from clnr.tables.roles.roles import Roles
from clnr.tables.table_kinds import Ends

# The most edges that are joined with nodes once more.
_MOST_JOINED_ROWS = 20_000_000
# Smaller tables hardly tell.
_LEAST_ROWS = 10
# Rows that are looked at first, which saves a scan of millions.
_FIRST_ROWS = 10_000


def dangling_hint(db: Connection, title: str, rows: int, lost: int, whole: bool, joined: Iterable[Ends]) -> str:
    """What may be wrong with ids, since ``lost`` of the rows are left out: other spelling, or kinds of nodes that are swapped.

    They are in the SQL tables ``edges`` (s, t) and ``ids`` (id, i); ``whole`` says that ids are integers, and ``joined`` which
    kinds of nodes tables of edges join.
    """
    if whole or rows > _MOST_JOINED_ROWS:
        return ""
    for a, b in dict.fromkeys(ends for ends in joined if ends.source != ends.target):
        if lost > MUCH_SHARE * rows and 2 * (rows - _kept_if_swapped(db, title, a, b)) < lost:
            return f"the tables of '{a}' and '{b}' look swapped: with them exchanged, most of these edges would be kept"
    run(db, f"CREATE TEMP TABLE spelled AS SELECT {_plain('id')} AS plain, min(id) AS id FROM ids GROUP BY 1", title)
    ((near, given, right),) = run(
        db,
        "WITH lost AS (SELECT s, t, a.i AS a, b.i AS b FROM edges LEFT JOIN ids a ON s = a.id LEFT JOIN ids b ON t = b.id "
        "WHERE a.i IS NULL OR b.i IS NULL), "
        f"found AS (SELECT lost.*, x.id AS x, y.id AS y FROM lost LEFT JOIN spelled x ON {_plain('s')} = x.plain "
        f"LEFT JOIN spelled y ON {_plain('t')} = y.plain) "
        "SELECT count(*), min(if(a IS NULL, s, t)), arg_min(if(a IS NULL, x, y), if(a IS NULL, s, t)) FROM found "
        "WHERE x IS NOT NULL AND y IS NOT NULL",
        title,
    )
    run(db, "DROP TABLE spelled", title)
    if not near:
        return ""
    # Other blanks than spaces are shown by their codes.
    example = f"as {shorten(given, 40)!r} for {shorten(right, 40)!r}"
    return f"{near:,} of them would be kept if case, blanks and - _ . in ids did not count, {example}; write ids alike"


def _plain(text: str) -> str:
    """An id without what people write in two ways, in SQL."""
    return f"regexp_replace(lower({text}), '[-_.\\s\\p{{Z}}]', '', 'g')"


def _kept_if_swapped(db: Connection, title: str, a: str, b: str) -> int:
    """How many edges have both ends if the nodes of two kinds are exchanged."""
    first, second = (quoted(node_id(kind, "")) for kind in (a, b))

    def swapped(end: str) -> str:
        there = f"WHEN starts_with({end}, {first}) THEN {second} || substr({end}, {len(node_id(a, '')) + 1})"
        back = f"WHEN starts_with({end}, {second}) THEN {first} || substr({end}, {len(node_id(b, '')) + 1})"
        return f"CASE {there} {back} ELSE {end} END"

    joins = f"JOIN ids a ON {swapped('s')} = a.id JOIN ids b ON {swapped('t')} = b.id"
    ((kept,),) = run(db, f"SELECT count(*) FROM edges {joins}", title)
    return int(kept)


def check_guessed_ends(db: Connection, table: Table, roles: Roles, edges: str) -> None:
    """Raise if a table whose first two columns were taken for the ends of edges is rather one of nodes.

    The ends are those of the SQL table that ``edges`` names. In a table of nodes, each row has an id of its own, and no other
    column has these ids.
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

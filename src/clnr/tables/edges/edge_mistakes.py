"""Edges that are left out because no node has their ids: what may be wrong with these."""

from __future__ import annotations

from collections.abc import Iterable

from clnr.errors import shorten
from clnr.tables.ingest_report import MUCH_SHARE
from clnr.tables.io.sql import Connection, quoted, run
from clnr.tables.roles.column_names import node_id
from clnr.tables.table_kinds import Ends

# The most edges that are joined with nodes once more.
_MOST_JOINED_ROWS = 20_000_000


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

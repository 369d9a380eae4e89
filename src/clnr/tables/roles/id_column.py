"""Which column of a node table has the ids: the one whose values are ends of edges, whatever it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clnr.tables.columns.node_columns import id_sql
from clnr.tables.io.source import Table
from clnr.tables.io.sql import NUMBERS, Connection, run
from clnr.tables.roles.roles import Roles

# Rows of edges and of nodes that are looked at first, and columns of these.
_EDGE_ROWS, _NODE_ROWS, _MOST_COLUMNS = 1_000_000, 10_000, 300
# The most columns that are looked at in all rows, and the share of the best one's matches that they need.
_MOST_RIVALS, _RIVAL_SHARE = 3, 0.5
# Another column is taken if it has many of the ends (all of one kind are half of them), and the one that is called so has a
# tenth of that; one that only comes first is given up sooner. A column that has nearly as many is named.
_LEAST_COVERED, _COMMON_SHARE, _FIRST_SHARE, _NEARLY = 0.3, 0.1, 0.5, 0.9


class IdColumn(NamedTuple):
    """A column of ids, and what is to be said of it, if anything."""

    column: str
    note: str = ""


def find_id_column(
    db: Connection, table: Table, roles: Roles, ends: Sequence[tuple[Table, str]], common: bool, taken: Sequence[str | None]
) -> IdColumn:
    """The column of ids, given the one that was found by its name, if that is ``common``, or by its place.

    It is compared with columns that are not taken, by how many of the ends of edges they have: a column of each table.
    """
    given = roles.id
    others = [name for name, column in table.columns.items() if name not in (*taken, given) and _may_be_id(column.kind)]
    if not others or not ends:
        return IdColumn(given)
    some = (
        f"SELECT DISTINCT {id_sql(of, column, False)} AS id, {number} AS k FROM (SELECT * FROM {of.sql} LIMIT {_EDGE_ROWS})"
        for number, (of, column) in enumerate(ends)
    )
    run(db, f"CREATE TEMP TABLE end_ids AS {' UNION ALL '.join(some)}", table.name)
    try:
        return _choose(db, table, given, others[: _MOST_COLUMNS - 1], common)
    finally:
        run(db, "DROP TABLE end_ids", table.name)


def _choose(db: Connection, table: Table, given: str, others: Sequence[str], common: bool) -> IdColumn:
    columns = [given, *others]
    ids = ", ".join(id_sql(table, column, False) for column in columns)
    stacked = f"unnest([{ids}]) AS id, unnest(range({len(columns)})) AS place"
    rows = f"SELECT {stacked} FROM (SELECT * FROM {table.sql} LIMIT {_NODE_ROWS})"
    matches = dict(run(db, f"SELECT place, count(*) FROM ({rows}) SEMI JOIN end_ids USING (id) GROUP BY place", table.name))
    best, own = max(matches.values(), default=0), matches.get(0, 0)
    least = own if common else _NEARLY * own
    rivals = [place for place, count in matches.items() if place and count >= max(least, _RIVAL_SHARE * best, 1)]
    rivals = sorted(rivals, key=lambda place: (-matches[place], place))[:_MOST_RIVALS]
    distinct = [columns[place] for place in rivals if _is_distinct(db, table, columns[place])]
    if not distinct:
        return IdColumn(given)
    covered = {column: _covered(db, table, column) for column in (given, *distinct)}
    rival = max(distinct, key=lambda column: covered[column])
    if covered[rival] >= _LEAST_COVERED and covered[given] <= covered[rival] * (_COMMON_SHARE if common else _FIRST_SHARE):
        has = f"{covered[rival]:.0%} of the ends of edges are there, {covered[given]:.0%} in '{given}'"
        return IdColumn(rival, f"{table.name}: ids are in '{rival}': {has}")
    if covered[rival] > covered[given] or (not common and covered[rival] >= _NEARLY * covered[given]):
        has = f"{covered[given]:.0%} of the ends of edges are there, {covered[rival]:.0%} in '{rival}'"
        return IdColumn(given, f"{table.name}: ids are read from '{given}': {has}; --id '{rival}' (id=) takes that")
    return IdColumn(given)


def _may_be_id(kind: str) -> bool:
    return kind in ("VARCHAR", "UUID") or (kind.startswith(NUMBERS) and not kind.endswith("]"))


def _is_distinct(db: Connection, table: Table, column: str) -> bool:
    rows = f"(SELECT {id_sql(table, column, False)} AS id FROM {table.sql})"
    return bool(run(db, f"SELECT count(DISTINCT id) = count(*) FROM {rows}", table.name)[0][0])


def _covered(db: Connection, table: Table, column: str) -> float:
    """The share of ends that a column has, on average over sources and targets."""
    there = f"SELECT DISTINCT {id_sql(table, column, False)} AS id, true AS known FROM {table.sql}"
    shares = f"SELECT count(known) / count(*) AS share FROM end_ids LEFT JOIN ({there}) USING (id) GROUP BY k"
    return float(run(db, f"SELECT avg(share) FROM ({shares})", table.name)[0][0])

"""Which column of a node table has the ids: the one whose values are ends of edges, whatever it is called."""

from __future__ import annotations

from collections.abc import Sequence

from clnr.errors import option
from clnr.tables.columns.node_columns import ids_in, is_distinct, plain_id, stacked_ids
from clnr.tables.io.source import Table
from clnr.tables.io.sql import NUMBERS, Connection, run
from clnr.tables.roles.roles import Roles

# Rows of edges that are enough where the column that is called so has nearly all of their ends; else more, and as many of
# nodes and their columns.
_FEW_EDGE_ROWS, _EDGE_ROWS, _NODE_ROWS, _MOST_COLUMNS = 5_000, 100_000, 10_000, 300
# The most columns that are looked at in all rows, and the share of the best one's matches that they need.
_MOST_RIVALS, _RIVAL_SHARE = 3, 0.5
# Another column is taken if it has many of the ends (all of one kind are half of them), and the one that is called so has a
# tenth of that; one that only comes first is given up sooner. A column that has nearly as many is named.
_LEAST_COVERED, _COMMON_SHARE, _FIRST_SHARE, _NEARLY = 0.3, 0.1, 0.5, 0.9


def find_id_column(
    db: Connection, table: Table, roles: Roles, ends: Sequence[tuple[Table, str]], common: bool, taken: Sequence[str | None]
) -> tuple[str, str]:
    """The column of ids, given the one that was found by its name, if that is ``common``, or by its place; and a note, or "".

    It is compared with columns that are not taken, by how many of the ends of edges they have: a column of each table.
    """
    given = roles.id
    kinds = ("VARCHAR", "UUID", *NUMBERS)
    free = {name: kind for name, (_, kind) in table.columns.items() if name not in (*taken, given)}
    others = [name for name, kind in free.items() if kind.startswith(kinds) and not kind.endswith("]")]
    if not others or not ends:
        return given, ""
    for rows in (_FEW_EDGE_ROWS, _EDGE_ROWS) if common else (_EDGE_ROWS,):
        some = (
            f"SELECT DISTINCT id, {number} AS k FROM {ids_in(of, column, f'(SELECT * FROM {of.sql} LIMIT {rows})')}"
            for number, (of, column) in enumerate(ends)
        )
        run(db, f"CREATE OR REPLACE TEMP TABLE end_ids AS {' UNION ALL '.join(some)}", table.name)
        if common and _covered(db, table, given) >= _NEARLY:
            return given, ""
    return _choose(db, table, given, others[: _MOST_COLUMNS - 1], common)


def _choose(db: Connection, table: Table, given: str, others: Sequence[str], common: bool) -> tuple[str, str]:
    columns = [given, *others]
    rows = stacked_ids(table, columns, _NODE_ROWS)
    matches = dict(
        run(db, f"SELECT place, count(DISTINCT id) FROM ({rows}) SEMI JOIN end_ids USING (id) GROUP BY place", table.name)
    )
    if not matches:
        # Written in another way, they are still the ids; a later error says in which.
        plain = f"{plain_id('id')} AS plain"
        near = f"(SELECT place, {plain} FROM ({rows})) SEMI JOIN (SELECT {plain} FROM end_ids) USING (plain)"
        alike = run(db, f"SELECT place FROM {near} GROUP BY place ORDER BY count(*) DESC, place LIMIT 1", table.name)
        return (columns[alike[0][0]] if alike else given), ""
    best, own = max(matches.values(), default=0), matches.get(0, 0)
    least = own if common else _NEARLY * own
    rivals = [place for place, count in matches.items() if place and count >= max(least, _RIVAL_SHARE * best, 1)]
    rivals = sorted(rivals, key=lambda place: (-matches[place], place))[:_MOST_RIVALS]
    # Rows that are alike in all columns are one node.
    once = (table.sql, f"(SELECT DISTINCT * FROM {table.sql})")
    distinct = [columns[each] for each in rivals if any(is_distinct(db, table, columns[each], rows) for rows in once)]
    if not distinct:
        return given, ""
    covered = {column: _covered(db, table, column) for column in (given, *distinct)}
    rival = max(distinct, key=lambda column: covered[column])
    if covered[rival] >= _LEAST_COVERED and covered[given] <= covered[rival] * (_COMMON_SHARE if common else _FIRST_SHARE):
        has = f"it has {covered[rival]:.0%} of the ends of edges, '{given}' has {covered[given]:.0%}"
        return rival, f"{table.name}: ids are read from '{rival}': {has}"
    if covered[rival] > covered[given] or (not common and covered[rival] >= _NEARLY * covered[given]):
        has = f"it has {covered[given]:.0%} of the ends of edges, '{rival}' has {covered[rival]:.0%}"
        return given, f"{table.name}: ids are read from '{given}': {has}; to use that: {option('id', rival)}"
    return given, ""


def _covered(db: Connection, table: Table, column: str) -> float:
    """The share of ends that a column has, on average over sources and targets."""
    known = f"(SELECT DISTINCT id, true AS known FROM {ids_in(table, column)})"
    shares = f"SELECT count(known) / count(*) AS share FROM end_ids LEFT JOIN {known} USING (id) GROUP BY k"
    # Without edges there are no ends.
    return float(run(db, f"SELECT avg(share) FROM ({shares})", table.name)[0][0] or 0)

"""Columns of a node table that hold ids of other nodes, such as a parent: edges, not features."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clnr.errors import option
from clnr.tables.columns.node_columns import id_sql, ids_in
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, is_missing, run
from clnr.tables.roles.column_names import IDS

_MOST_COLUMNS, _LEAST_VALUES = 300, 5
# The share of values that are ids of the table, and of those that are the node's own.
_NEARLY_ALL, _HALF = 0.95, 0.5
# Whole numbers may be ids of other rows by chance, unless the column is called so, or as the column of ids is: parent_taxid.
_PARENT_NAME = re.compile("parent|father|mother|manager|supervisor|boss", re.IGNORECASE)


def parent_columns(db: Connection, table: Table, key: str, columns: Sequence[str]) -> list[str]:
    """Those of some columns whose values are ids of other rows."""
    kinds = ("VARCHAR", "UUID", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "DOUBLE")
    some = [name for name in columns if table.columns[name].kind in kinds][:_MOST_COLUMNS]
    if not some:
        return []
    values = ", ".join(id_sql(table, name) for name in some)
    stacked = f"unnest(CAST([{values}] AS VARCHAR[])) AS id, unnest(range({len(some)})) AS place"
    rows = f"(SELECT {stacked}, {id_sql(table, key)} AS own FROM {table.first_rows})"
    known = f"(SELECT DISTINCT CAST(id AS VARCHAR) AS id, true AS known FROM {ids_in(table, key)})"
    found = run(
        db,
        f"SELECT place, bool_and(regexp_full_match(id, '[0-9]+')) FROM {rows} LEFT JOIN {known} USING (id) "
        f"WHERE id IS NOT NULL AND NOT {is_missing('id')} GROUP BY place HAVING count(DISTINCT id) >= {_LEAST_VALUES} AND "
        f"count(known) >= {_NEARLY_ALL} * count(*) AND count(*) FILTER (id = own) <= {_HALF} * count(*) ORDER BY place",
        table.name,
    )
    name = key.strip().casefold()

    def is_called_so(column: str) -> bool:
        plain = column.strip().casefold()
        return _PARENT_NAME.search(plain) is not None or (name not in IDS and plain.endswith(name))

    return [some[place] for place, numbers in found if not numbers or is_called_so(some[place])]


def about_parents(table: Table, parents: Sequence[str], are_edges: bool = False) -> str:
    """A line about such columns; unless they are edges already, with how to read them as such."""
    names = ", ".join(f"'{name}'" for name in parents)
    holds = "holds ids of other nodes, so it is not a feature"
    line = f"{table.name}: {names} {holds if len(parents) == 1 else 'hold ids of other nodes, so they are not features'}"
    given, ends = option("edges"), f"{option('source')} and {option('target')}"
    return line if are_edges else f"{line}; to read them as edges, give this table as {given}, too, with {ends}"

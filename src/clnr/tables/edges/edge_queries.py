"""Queries in place of a file: where rows repeat edges, and where ends of edges are not in the node table."""

from __future__ import annotations

from clnr.tables.columns.notations import by_query, sql_name
from clnr.tables.edges.load_edges import TablesAndRoles
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, run
from clnr.tables.roles.column_names import column_called

_WEIGHT = "weight"


def counting_query(db: Connection, edges: TablesAndRoles, directed: bool) -> str:
    """The query that counts the rows of each edge as its weight; "" if no query can replace the table, or it has weights."""
    (table, *_), roles = edges[0]
    taken = (roles.weight, roles.edge_type, roles.edge_time, column_called(_WEIGHT, table))
    ends = [_id_in_query(db, table, column) for column in (roles.source, roles.target)]
    if len(edges) > 1 or not table.from_sql or any(taken) or not all(ends):
        return ""
    names = [sql_name(db, column) for column in (roles.source, roles.target)]
    both = ends if directed else [f"{pick}({', '.join(ends)})" for pick in ("least", "greatest")]
    selected = ", ".join(end if end == name else f"{end} AS {name}" for end, name in zip(both, names, strict=True))
    query = f"SELECT {selected}, count(*) AS {_WEIGHT} FROM {table.from_sql} GROUP BY ALL"
    return by_query("edges", "counts the rows of each edge as its weight", query)


def keeping_query(db: Connection, edges: TablesAndRoles, nodes: Table, key: str) -> str:
    """The query that adds the ends of edges to the node table, with empty values; "" if no query can replace it."""
    (table, *_), roles = edges[0]
    columns = [(nodes, key), (table, roles.source), (table, roles.target)]
    as_text = len({of.columns[column].kind == "VARCHAR" for of, column in columns}) > 1
    node, *ends = (_id_in_query(db, of, column, as_text) for of, column in columns)
    if len(edges) > 1 or not nodes.from_sql or not table.from_sql or not (node and all(ends)):
        return ""
    name = sql_name(db, key)
    rows = nodes.from_sql if node == name else f"(SELECT * REPLACE ({node} AS {name}) FROM {nodes.from_sql})"
    first, second = (f"SELECT {end} AS {name} FROM {table.from_sql}" for end in ends)
    return by_query(
        "nodes", "keeps them, with empty values", f"SELECT * FROM {rows} FULL JOIN ({first} UNION {second}) USING ({name})"
    )


def _id_in_query(db: Connection, table: Table, column: str, as_text: bool = False) -> str:
    """An id as a query must select it, for it to be the one of the table; "" if that is not simple."""
    name, (c, kind) = sql_name(db, column), table.columns[column]
    if not table.is_text:
        simple = kind == "VARCHAR" or kind.endswith("INT") or kind == "INTEGER"
        return "" if "." in column or not simple else f"{name}::VARCHAR" if as_text else name
    # Spaces around ids are no part of them in a text file.
    spaces = run(db, f"SELECT 1 FROM {table.sql} WHERE {c} <> trim({c}, ' ') LIMIT 1", table.name)
    return f"trim({name}, ' ')" if spaces else name

"""The tables that were given, opened as relations of a DuckDB connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from clnr.tables.columns.columns import LABELS, SOURCES, TARGETS, end_names, id_names
from clnr.tables.io.csv_header import KnownNames
from clnr.tables.io.query import query_table
from clnr.tables.io.source import Table, open_table
from clnr.tables.kinds.table_kinds import NamedTable, edges_by_kind, nodes_by_kind

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from clnr.tables.table_arguments import TableArguments


class OpenTables(NamedTuple):
    """The tables that were given, opened: each ``table`` is a ``Table``."""

    edges: tuple[NamedTable, ...]
    nodes: tuple[NamedTable, ...]

    @property
    def has_kinds(self) -> bool:
        """Whether some of them have names."""
        return any(each.kind is not None for each in self.edges) or any(each.kind is not None for each in self.nodes)

    @property
    def has_node_kinds(self) -> bool:
        return any(each.ends is not None for each in self.edges) or any(each.kind is not None for each in self.nodes)


def open_tables(db: DuckDBPyConnection, arguments: TableArguments) -> OpenTables:
    """The tables of edges and of nodes, of which nothing is read yet."""
    if arguments.edges_query is not None:
        edges: tuple[NamedTable, ...] = (NamedTable(query_table(db, arguments.edges_query, "edges")),)
    else:
        edges = tuple(each._replace(table=_open_edges(db, each, arguments)) for each in edges_by_kind(arguments.edges))
    if arguments.nodes_query is not None:
        nodes: tuple[NamedTable, ...] = (NamedTable(query_table(db, arguments.nodes_query, "nodes")),)
    else:
        nodes = tuple(each._replace(table=_open_nodes(db, each, arguments)) for each in nodes_by_kind(arguments.nodes))
    return OpenTables(edges, nodes)


def _open_edges(db: DuckDBPyConnection, edges: NamedTable, given: TableArguments) -> Table:
    named = (given.source, given.target, *given.weights, *given.edge_times, given.edge_type, *given.ignore)
    known = KnownNames(tuple(filter(None, named)), end_names(edges.ends))
    return open_table(db, edges.table, "edges", known, given.header_of("edges"), edges.kind or "")


def _open_nodes(db: DuckDBPyConnection, nodes: NamedTable, given: TableArguments) -> Table:
    named = [given.id, given.label, given.time, given.names, *(given.features or ()), *given.types, *given.ignore]
    if nodes.kind is not None:
        named += [name.removeprefix(f"{nodes.kind}.") for name in named if name is not None]
    # Those of edges show that a table of edges was given for one of nodes.
    known = KnownNames(tuple(filter(None, named)), (id_names(nodes.kind),), (*LABELS, SOURCES[0], TARGETS[0]))
    return open_table(db, nodes.table, "nodes", known, given.header_of("nodes"), nodes.kind or "")

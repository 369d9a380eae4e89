"""The given tables (one, or several by kind), opened as relations of a DuckDB connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line, option
from clnr.tables.io.csv_header import KnownNames
from clnr.tables.io.source import Table, is_table, open_table
from clnr.tables.io.sql import Connection
from clnr.tables.io.table_files import is_query
from clnr.tables.roles.column_names import (
    LABELS,
    NO_COLUMN,
    RESERVED_SIGNS,
    SOURCES,
    TARGETS,
    check_apart,
    column_called,
    end_names,
    id_names,
    named_columns,
    no_column,
)
from clnr.tables.table_arguments import TableArguments

_OF_EDGES = {"source": "for source", "target": "for target", "weight": "for weight"}
_BELONGS = {
    "edges": "sources, targets, weights, kinds and times of edges are columns of the edge table",
    "nodes": "ids, labels, times and features of nodes are columns of the node table",
}


class Ends(NamedTuple):
    """The kinds of nodes at the two ends of edges."""

    source: str
    target: str


class NamedTable(NamedTuple):
    """A table of edges or of nodes.

    Attributes:
        table: A file or a data frame; or what was opened of it.
        kind: What its edges or nodes are called; None for a single table without a name.
        ends: Of edges: the kinds of nodes at their ends; None if nodes have no kinds.
    """

    table: Any
    kind: str | None = None
    ends: Ends | None = None


def edges_by_kind(edges: Any) -> tuple[NamedTable, ...]:
    """The tables of edges: one, or several by the names of their kinds; or by source, relation and target, as in PyG."""
    tables = _by_kind(edges, "edges")
    if len({each.ends is None for each in tables}) > 1:
        plain = next(each.kind for each in tables if each.ends is None)
        raise DataError(f"edges '{plain}': the kinds of nodes that they join are not named; {_edge_naming()}")
    return tables


def nodes_by_kind(nodes: Any) -> tuple[NamedTable, ...]:
    """The tables of nodes: one, or several by the names of their kinds."""
    return _by_kind(nodes, "nodes")


def _by_kind(given: Any, role: str) -> tuple[NamedTable, ...]:
    if not isinstance(given, Mapping):
        return () if given is None else (NamedTable(given),)
    if not any(map(is_table, given.values())):  # Such as a dictionary of columns.
        raise DataError(f"{role} must be a file or a data frame, not a {type(given).__name__}")
    tables: dict[str, NamedTable] = {}
    for key, table in given.items():
        if role == "edges" and isinstance(key, tuple):
            if len(key) != 3:
                raise DataError(f"edges '{one_line(','.join(map(str, key)))}': {_edge_naming()}")
            source, relation, target = (_checked(name, role) for name in key)
            named = NamedTable(table, f"{source},{relation},{target}", Ends(source, target))
        else:
            named = NamedTable(table, _checked(key, role))
        if (plain := str(named.kind).casefold()) in tables:
            raise DataError(f"two tables of {role} are called '{named.kind}'; choose two names, or give both files as one glob")
        tables[plain] = named
    return tuple(tables.values())


def _edge_naming() -> str:
    form = option("edges", {("user", "bought", "item"): "FILE"})
    return f"edges are named by source, relation and target, as user,bought,item: {form}"


def check_node_kinds(
    edges: Sequence[NamedTable], nodes: Sequence[NamedTable], earlier: Sequence[str] | None, extends: bool
) -> None:
    """Raise unless tables of edges and nodes go together, and with the kinds of nodes of an earlier graph, if there is one.

    Where nodes have kinds, edges must say which they join. A kind without a table beside one without edges is a misspelt name.
    """
    named = [each.kind for each in nodes if each.kind is not None]
    joined = dict.fromkeys(kind for each in edges if each.ends is not None for kind in each.ends)
    if earlier is not None and bool(earlier) != bool(named or joined):
        known = ", ".join(earlier)
        raise DataError(
            f"the earlier graph has nodes of several kinds ({known}), so name the kind of each new table: "
            f"{option('nodes', {earlier[0]: 'FILE'})}; {_edge_naming()}"
            if earlier
            else f"the earlier graph has nodes of one kind: give {option('nodes', 'FILE')} and {option('edges', 'FILE')} "
            "without names of kinds of nodes"
        )
    if earlier and (new := [kind for kind in (*named, *joined) if kind not in earlier]):
        raise DataError(f"the earlier graph has no nodes of the kind '{new[0]}', only {', '.join(earlier)}")
    if named and (plain := [each for each in edges if each.ends is None]):
        which = "the table of edges" if plain[0].kind is None else f"edges '{plain[0].kind}'"
        raise DataError(
            f"nodes are of several kinds ({', '.join(named)}), so {which} must name the kinds that it joins; {_edge_naming()}"
        )
    if joined and nodes and not named:
        ways = " or ".join(option("nodes", {kind: "FILE"}) for kind in joined)
        raise DataError(f"edges join nodes of the kinds {', '.join(joined)}: name the kind of the node table: {ways}")
    bare, unused = [kind for kind in joined if kind not in named], [kind for kind in named if kind not in joined]
    if bare and unused and not extends:
        raise DataError(
            f"edges name the kind '{bare[0]}', which has no table, and no edges name '{unused[0]}', which has one; "
            "correct one of the names"
        )


def _checked(name: Any, role: str) -> str:
    """The name of a kind, trimmed."""
    plain = name.strip() if isinstance(name, str) else ""
    if not plain or not plain.isprintable() or RESERVED_SIGNS.intersection(plain):
        more = f", or (source, relation, target); {_edge_naming()}" if role == "edges" else ", such as user"
        raise DataError(
            f"a kind of {role} is a name without any of '{''.join(sorted(RESERVED_SIGNS))}'{more}, not {name!r:.80}"
        )
    return plain


class OpenTables(NamedTuple):
    """The tables that were given, opened: each ``table`` is a ``Table``."""

    edges: tuple[NamedTable, ...]
    nodes: tuple[NamedTable, ...]


def open_tables(db: Connection, arguments: TableArguments) -> OpenTables:
    """The tables of edges and of nodes, of which nothing is read yet."""
    edges = tuple(each._replace(table=_open_edges(db, each, arguments)) for each in edges_by_kind(arguments.edges))
    nodes = tuple(each._replace(table=_open_nodes(db, each, arguments)) for each in nodes_by_kind(arguments.nodes))
    return OpenTables(edges, nodes)


def _query_table(db: Connection, named: NamedTable, role: str, given: TableArguments) -> Table:
    """The table of a query; the module that reads it is imported only then."""
    from clnr.tables.io.query import query_table

    beside_matrix = role == "nodes" and given.feature_matrix is not None
    return query_table(db, named.table, f"{role} {named.kind}" if named.kind else role, given.encoding, beside_matrix)


def _open_edges(db: Connection, edges: NamedTable, given: TableArguments) -> Table:
    if is_query(edges.table):
        return _query_table(db, edges, "edges", given)
    named = (
        *(name for argument in _OF_EDGES for name in given.columns_named(argument)),
        given.edge_type,
        given.edge_time,
        *given.ignore,
    )
    known = KnownNames(tuple(filter(None, named)), end_names(edges.ends))
    return open_table(db, edges.table, "edges", known, given.header, edges.kind or "", given.encoding)


def _open_nodes(db: Connection, nodes: NamedTable, given: TableArguments) -> Table:
    if is_query(nodes.table):
        return _query_table(db, nodes, "nodes", given)
    ids = given.columns_named("id")
    named = [*ids, given.label, given.names, *(given.features or ()), *given.types, *given.ignore]
    if nodes.kind is not None:
        named += [name.removeprefix(f"{nodes.kind}.") for name in named if name is not None]
    # Those of edges show that a table of edges was given for one of nodes.
    known = KnownNames(tuple(filter(None, named)), (id_names(nodes.kind),), (*LABELS, SOURCES[0], TARGETS[0]))
    return open_table(db, nodes.table, "nodes", known, given.header, nodes.kind or "", given.encoding)


# -- which of their columns are named ----------------------------------------------------------------------------------------


def for_edges(arguments: TableArguments, table: Table) -> TableArguments:
    """What was named of the columns of one table of edges."""
    named: dict[str, Any] = {name: _one_of(name, arguments, table) for name in _OF_EDGES}
    check_apart([named["weight"]], arguments.edge_time and column_called(arguments.edge_time, table))
    return replace(arguments, **named, ignore=_columns_of(arguments.ignore, table))


def for_nodes(arguments: TableArguments, table: Table, kind: str | None) -> TableArguments:
    """What was named of the columns of the table of one kind of nodes: ``age``, or ``user.age`` for this kind alone."""
    label = column_called(arguments.label, table, kind)
    if arguments.label is not None and label is None:
        label = NO_COLUMN
    named: dict[str, Any] = {"id": _one_of("id", arguments, table, kind), "label": label}
    features = None if arguments.features is None else _columns_of(arguments.features, table, kind)
    types = {column: each for name, each in arguments.types.items() for column in _columns_of((name,), table, kind)}
    return replace(arguments, **named, ignore=_columns_of(arguments.ignore, table, kind), features=features, types=types)


def _columns_of(names: Iterable[str], table: Table, kind: str | None = None) -> tuple[str, ...]:
    return tuple(column for _, columns in named_columns(names, [(table, kind)]) for column in columns)


def _one_of(argument: str, arguments: TableArguments, table: Table, kind: str | None = None) -> str | None:
    """The column of a table of those that an argument names; None if it has none of them."""
    named = (column_called(name, table, kind) for name in arguments.columns_named(argument))
    columns = list(dict.fromkeys(filter(None, named)))
    if len(columns) > 1:
        both, option = f"both '{columns[0]}' and '{columns[1]}'", f"--{argument.replace('_', '-')}"
        raise DataError(f"{table.name}: it has {both}, and a table has one {option}; leave out one")
    return columns[0] if columns else None


def check_named(arguments: TableArguments, tables: OpenTables) -> None:
    """Raise if a column is named that no table has, or only one of the other sort."""
    edges: list[tuple[Table, str | None]] = [(each.table, None) for each in tables.edges]
    nodes: list[tuple[Table, str | None]] = [(each.table, each.kind) for each in tables.nodes]
    checks: list[tuple[Iterable[str | None], list[tuple[Table, str | None]], str]] = [
        *((arguments.columns_named(argument), edges, role) for argument, role in _OF_EDGES.items()),
        ((arguments.edge_type,), edges, "for edge types"),
        ((arguments.edge_time,), edges, f"for {option('until')}"),
        (arguments.columns_named("id"), nodes, "for id"),
        ((arguments.label,), nodes, "for label"),
        (arguments.features or (), nodes, "for features"),
        (arguments.types, nodes, f"for {option('types')}"),
        (arguments.ignore, [*edges, *nodes], "to ignore"),
    ]
    for names, of, role in checks:
        for name, columns in named_columns(filter(None, names), of):
            other = None if columns else next((each for each, _ in (*edges, *nodes) if column_called(name, each)), None)
            if other is not None:
                own, others = ("nodes", "edges") if of is nodes else ("edges", "nodes")
                lacks = f"not of {', '.join(each.name for each, _ in of)}" if of else f"and {option(own)} is missing"
                said = f"'{one_line(name, 80)}' {role} is a column of {other.name} ({option(others)}), {lacks}; {_BELONGS[own]}"
                ends = (*arguments.columns_named("source"), *arguments.columns_named("target"), *SOURCES, *TARGETS)
                is_right = any(column_called(end, table) for end in ends for table, _ in edges)
                exchange = f"; if the tables are swapped, exchange {option('edges')} and {option('nodes')}"
                swap = "" if is_right or not of else exchange
                raise DataError(said + swap)
            if not columns and of:
                raise no_column(name, role, [each for each, _ in of])
            if not columns and arguments.base is None:
                raise DataError(f"column '{one_line(name, 80)}' {role} needs a node table: {option('nodes')}")

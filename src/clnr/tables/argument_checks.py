"""Checks of table arguments: of each argument, and of their combinations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from clnr.errors import DataError, UnknownName, did_you_mean, one_line, option
from clnr.support.arguments import check_type
from clnr.tables.io.encodings import check_encoding
from clnr.tables.io.source import check_table
from clnr.tables.io.table_files import check_is_file, is_query
from clnr.tables.roles.column_names import check_apart
from clnr.tables.table_arguments import COLUMN_WORDS, REPEATABLE, TableArguments
from clnr.tables.table_kinds import check_node_kinds, edges_by_kind, nodes_by_kind

# What a value must be an instance of, and how that is called, by the type of its field.
_EXPECTED: dict[Any, tuple[Any, str]] = {
    "str | None": (str | None, "text"),
    "bool": (bool | None, "True or False"),
    "bool | None": (bool | None, "True or False"),
    "Mapping[str, str]": (Mapping, "kinds by the names of columns"),
}


def check_files(edges: Any = None, nodes: Any = None, feature_matrix: Any = None, **others: Any) -> None:
    """Fail early if a file is missing, or is not in a format of tables."""
    for each in (*edges_by_kind(edges), *nodes_by_kind(nodes)):
        if isinstance(each.table, str | Path) and not is_query(each.table):
            check_table(os.fspath(each.table))
    if isinstance(feature_matrix, str | Path):
        check_is_file(Path(feature_matrix))


def check_arguments(function: str, /, edges: Any = None, nodes: Any = None, **named: Any) -> TableArguments:
    """The checked arguments of a call, with lists of columns as tuples; raises if one is wrong or two contradict each other."""
    known = [each.name for each in fields(TableArguments)]
    for name in named.keys() - known:
        near = did_you_mean(name, known).rstrip() or f"see help(clnr.{function})"
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; {near}")
    arguments = TableArguments(edges, nodes, **named)
    for each in fields(arguments):
        if each.type in _EXPECTED:
            check_type(each.name, getattr(arguments, each.name), *_EXPECTED[each.type], DataError)
    _check_earlier(arguments)
    if arguments.encoding is not None:
        check_encoding(arguments.encoding)
    for column, kind in arguments.types.items():
        check_type("each column of types", column, str, "text", DataError)
        if kind not in COLUMN_WORDS:
            raise UnknownName(f"type for column '{column}'", str(kind), COLUMN_WORDS)
    columns = {name: getattr(arguments, name) for name in (*REPEATABLE, "features", "ignore")}
    columns |= {name: (columns[name],) for name in REPEATABLE if isinstance(columns[name], str)}
    columns = {name: _column_names(name, given) for name, given in columns.items() if given is not None}
    arguments = replace(arguments, **columns)
    _check_kinds(arguments)
    if arguments.until is not None and not (arguments.edge_time and arguments.last_time):
        given = one_line(arguments.until, 80)
        raise DataError(f"{option('until')} must be COLUMN=DATE, such as date=2020-12-31, not '{given}'")
    check_apart(arguments.columns_named("weight"), arguments.edge_time)
    _check_tables(arguments)
    return arguments


def _check_earlier(given: TableArguments) -> None:
    """Check ``feature_encoder`` and ``base``; their classes, which are slow to import, are imported only if they are given."""
    if given.feature_encoder is not None:
        from clnr.tables.columns.feature_encoder import FeatureEncoder

        check_type("feature_encoder", given.feature_encoder, FeatureEncoder, "a FeatureEncoder", DataError)
    if given.base is not None:
        from clnr.tables.table_graph import TableGraph

        check_type("base", given.base, TableGraph, "a result of read_tables", DataError)


def _column_names(argument: str, given: Any) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (None,)
    if not all(isinstance(each, str) for each in names):
        raise DataError(f"{argument} must be a list of names of columns, not a value of type {type(given).__name__}")
    return names


def node_kinds(arguments: TableArguments) -> tuple[str, ...]:
    """The kinds of nodes: those that have a table, then others that edges join; none if nodes have no kinds."""
    named = tuple(each.kind for each in nodes_by_kind(arguments.nodes) if each.kind is not None)
    joined = {kind for each in edges_by_kind(arguments.edges) for kind in each.ends or ()}
    return (*named, *sorted(joined.difference(named)))


def _check_kinds(given: TableArguments) -> None:
    if isinstance(given.edges, Mapping) and given.edge_type is not None:
        raise DataError(f"the names of the edge tables are the kinds of edges: leave out {option('edge_type')}")
    if given.feature_matrix is not None and node_kinds(given):
        raise DataError("a feature matrix does not work with several kinds of nodes: leave it out")
    known: tuple[str, ...] | None = None
    if given.base is not None:
        known = given.base.ingest_report.node_kinds
    elif given.feature_encoder is not None and given.feature_encoder.encodes:
        known = given.feature_encoder.node_kinds
    check_node_kinds(edges_by_kind(given.edges), nodes_by_kind(given.nodes), known, extends=given.base is not None)
    if given.base is not None and bool(given.base.ingest_report.edge_types) != given.has_edge_kinds and given.edges is not None:
        by_column, by_names = option("edge_type"), option("edges", {"NAME": "FILE"})
        raise DataError(
            f"the earlier graph has kinds of edges: name those of new edges by {by_column}, or by {by_names}"
            if given.base.ingest_report.edge_types
            else f"the earlier graph has no kinds of edges: leave out {by_column}, and names in {by_names}"
        )


def _check_tables(given: TableArguments) -> None:
    base, encoder = given.base, given.feature_encoder
    if given.edges is None and (base is None or given.nodes is None):
        raise DataError("there is nothing to read: pass a table of edges or, to extend an earlier graph (base), one of nodes")
    if base is not None and encoder is not None:
        raise DataError("an earlier graph is extended by its own feature encoder; leave out either feature_encoder or base")
    if base is not None and base.feature_encoder is None:
        raise DataError("the earlier graph did not come from tables, so it has no feature encoder for the nodes of a table")
    if base is not None and given.directed not in (None, given.is_directed):
        kind = "directed" if given.is_directed else "undirected"
        raise DataError(f"the earlier graph is {kind}, so {option('directed', given.directed)} cannot extend it")
    if (base is not None or encoder is not None) and (given.features is not None or given.types):
        which = option("types" if given.types else "features")
        raise DataError(f"the earlier feature encoder decides how columns are read: leave out {which}")

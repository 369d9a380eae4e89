"""Names of columns where there are several tables of edges or of nodes: which table each is of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clnr.errors import DataError
from clnr.tables.columns.columns import NO_COLUMN, no_column
from clnr.tables.io.source import Table
from clnr.tables.kinds.table_kinds import qualified_name

if TYPE_CHECKING:
    from clnr.tables.open_tables import OpenTables
    from clnr.tables.table_arguments import TableArguments

_OF_EDGES = ("source", "target")
_OF_NODES = ("id", "label", "time")


def for_edges(arguments: TableArguments, table: Table) -> TableArguments:
    """What was named of the columns of one table of edges."""
    named: dict[str, Any] = {name: _found(getattr(arguments, name), table, None) for name in _OF_EDGES}
    named |= _weight_and_time(arguments, table)
    ignore = _all_found(arguments.ignore, table, None)
    return replace(arguments, **named, ignore=ignore, features=None, types={})


def for_nodes(arguments: TableArguments, table: Table, kind: str | None) -> TableArguments:
    """What was named of the columns of the table of one kind of nodes: ``age``, or ``user.age`` for this kind alone."""
    named: dict[str, Any] = {name: _found(getattr(arguments, name), table, kind) for name in _OF_NODES}
    if arguments.label is not None and named["label"] is None:
        named["label"] = NO_COLUMN
    features = None if arguments.features is None else _all_found(arguments.features, table, kind)
    types = {column: each for name, each in arguments.types.items() for column in _all_found((name,), table, kind)}
    ignore = _all_found(arguments.ignore, table, kind)
    return replace(arguments, **named, ignore=ignore, features=features, types=types)


def with_one_weight(arguments: TableArguments, table: Table) -> TableArguments:
    """The same for the only table of edges, which must have the column of weights that is named."""
    for name in arguments.weights:
        if _found(name, table, None) is None:
            raise no_column(name, "for weight", [table])
    return replace(arguments, **_weight_and_time(arguments, table))


def _weight_and_time(arguments: TableArguments, table: Table) -> dict[str, Any]:
    """The columns of weights and of times of one table, of those that are named; no weight if it has none of them."""
    weight = _one_of(arguments.weights, table, "weights", "weight")
    time = _one_of(arguments.edge_times, table, "times", "edge_time")
    check_apart([weight], [time])
    # All tables must have times, if one has: that a column is missing is said where it is looked for.
    return {"weight": weight, "edge_time": time or next(iter(arguments.edge_times), None)}


def check_apart(weights: Iterable[str | None], edge_times: Iterable[str | None]) -> None:
    """Raise if a column is named as one of weights and one of times."""
    if both := [each for each in edge_times if each is not None and each in weights]:
        raise DataError(f"column '{both[0]}' cannot be both time and weight of the edges: leave out --weight (weight)")


def _one_of(names: Iterable[str], table: Table, what: str, argument: str) -> str | None:
    """The column of a table of those that are named; None if it has none of them."""
    columns = list(dict.fromkeys(filter(None, (_found(name, table, None) for name in names))))
    if len(columns) > 1:
        raise DataError(
            f"{table.name}: it has both '{columns[0]}' and '{columns[1]}', and {what} are one column of a table; leave out one "
            f"--{argument.replace('_', '-')} ({argument}=)"
        )
    return columns[0] if columns else None


def check_named(arguments: TableArguments, tables: OpenTables) -> None:
    """Raise if a column is named that no table has."""
    edges: list[tuple[Table, str | None]] = [(each.table, None) for each in tables.edges]
    nodes: list[tuple[Table, str | None]] = [(each.table, each.kind) for each in tables.nodes]
    for of, roles in ((edges, _OF_EDGES), (nodes, _OF_NODES)):
        for role in roles:
            _check((getattr(arguments, role),), of, f"for {role}")
    _check(arguments.weights, edges, "for weight")
    _check(arguments.features or (), nodes, "for features")
    _check(arguments.types, nodes, "as a type (--as)")
    _check(arguments.ignore, [*edges, *nodes], "to ignore")


def _check(names: Iterable[str | None], tables: Sequence[tuple[Table, str | None]], role: str) -> None:
    for name in names:
        if name is None or any(_found(name, table, kind) for table, kind in tables):
            continue
        for part in _parts(name):
            if not any(_found(part, table, kind) for table, kind in tables):
                there = ", ".join(dict.fromkeys(column for table, _ in tables for column in table.columns)) or "none"
                raise DataError(f"no table has a column '{part}' {role}; there are {there}")


def _all_found(names: Iterable[str], table: Table, kind: str | None) -> tuple[str, ...]:
    """Columns of a table by their names; several may be given in one, with commas."""
    columns: list[str | None] = []
    for name in names:
        whole = _found(name, table, kind)
        columns += [whole] if whole else [_found(part, table, kind) for part in _parts(name)]
    return tuple(column for column in columns if column is not None)


def _parts(name: str) -> list[str]:
    return [part for part in name.split(",") if part.strip()] or [name]


def _found(name: str | None, table: Table, kind: str | None) -> str | None:
    """The column of a table that a name means; None if it has no such column."""
    if name is None:
        return None
    columns = {column.strip().casefold(): column for column in table.columns}
    if kind is not None:
        columns |= {qualified_name(kind, column.strip()).casefold(): column for column in table.columns}
    return columns.get(name.strip().casefold())

"""Columns by their names: the usual ones, and those that a user says, of one table or of several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clnr.errors import DataError, did_you_mean, one_line
from clnr.tables.io.source import Table

if TYPE_CHECKING:
    from clnr.tables.table_arguments import TableArguments
    from clnr.tables.table_kinds import OpenTables

SOURCES = ("source", "src", "from", "source_id", "from_id", "head", "u", "node1", "subject")
TARGETS = ("target", "dst", "to", "target_id", "to_id", "dest", "destination", "tail", "v", "node2", "object")
WEIGHTS = ("weight", "w", "edge_weight", "strength")
IDS = ("id", "node", "node_id", "nodeid", "key", "name", "index")
LABELS = ("label", "class", "y", "category_label")
_OF_EDGES = ("source", "target")
_OF_NODES = ("id", "label", "time")
NO_COLUMN = ""
"""The name of no column, where one with a common name is not meant."""


def id_names(kind: str | None) -> tuple[str, ...]:
    """Common names of the column of ids; first, those of a kind of nodes."""
    return IDS if kind is None else (*_of_kind(kind), *IDS)


def end_names(ends: tuple[str, str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Common names of the columns of sources and of targets; first, those of the kinds of nodes that they join."""
    if ends is None or ends[0] == ends[1]:
        return SOURCES, TARGETS
    return (*_of_kind(ends[0]), *SOURCES), (*_of_kind(ends[1]), *TARGETS)


def _of_kind(kind: str) -> tuple[str, ...]:
    plain = kind.casefold()
    return plain, f"{plain}_id", f"{plain}id", f"{plain} id"


def qualified_name(kind: str, column: str) -> str:
    """A column of the table of one kind of nodes, among those of all."""
    return f"{kind}.{column}"


def plain_name(column: str) -> str:
    """The same column in its own table."""
    return column.partition(".")[2]


def find_column(
    table: Table, name: str | None, usual: Sequence[str], role: str, others: Sequence[str | None] = ()
) -> str | None:
    """A column by its name, in any case; without a name, the first of the usual ones that has no other role."""
    if name == NO_COLUMN:
        return None
    if name is not None:
        if (column := column_called(name, table)) is None:
            raise no_column(name, f"for {role}", [table])
        return column
    columns, taken = _by_name(table), {other.strip().casefold() for other in others if other}
    return next((columns[each] for each in usual if each in columns and each not in taken), None)


def no_column(name: str, role: str, tables: Sequence[Table]) -> DataError:
    """The error for a column that none of some tables has."""
    missing = f"there is no column '{one_line(name, 80)}' {role}"
    near = did_you_mean(name, (column for table in tables for column in table.columns))
    if len(tables) == 1:
        return DataError(f"{tables[0].name}: {missing}; {near}there are {', '.join(tables[0].columns)}")
    there = "; ".join(f"{table.name} has {', '.join(table.columns)}" for table in tables)
    return DataError(f"{missing}; {near}{there}")


def for_edges(arguments: TableArguments, table: Table) -> TableArguments:
    """What was named of the columns of one table of edges."""
    named: dict[str, Any] = {name: column_called(getattr(arguments, name), table) for name in _OF_EDGES}
    named |= _weight_and_time(arguments, table)
    return replace(arguments, **named, ignore=_columns_of(arguments.ignore, table), features=None, types={})


def for_nodes(arguments: TableArguments, table: Table, kind: str | None) -> TableArguments:
    """What was named of the columns of the table of one kind of nodes: ``age``, or ``user.age`` for this kind alone."""
    named: dict[str, Any] = {name: column_called(getattr(arguments, name), table, kind) for name in _OF_NODES}
    if arguments.label is not None and named["label"] is None:
        named["label"] = NO_COLUMN
    features = None if arguments.features is None else _columns_of(arguments.features, table, kind)
    types = {column: each for name, each in arguments.types.items() for column in _columns_of((name,), table, kind)}
    return replace(arguments, **named, ignore=_columns_of(arguments.ignore, table, kind), features=features, types=types)


def _columns_of(names: Iterable[str], table: Table, kind: str | None = None) -> tuple[str, ...]:
    return tuple(column for _, columns in named_columns(names, [(table, kind)]) for column in columns)


def with_one_weight(arguments: TableArguments, table: Table) -> TableArguments:
    """The same for the only table of edges, which must have the column of weights that is named."""
    for name in arguments.weights:
        if column_called(name, table) is None:
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
    columns = list(dict.fromkeys(filter(None, (column_called(name, table) for name in names))))
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
    checks: list[tuple[Iterable[str | None], list[tuple[Table, str | None]], str]] = [
        *(((getattr(arguments, role),), edges, f"for {role}") for role in _OF_EDGES),
        *(((getattr(arguments, role),), nodes, f"for {role}") for role in _OF_NODES),
        (arguments.weights, edges, "for weight"),
        (arguments.features or (), nodes, "for features"),
        (arguments.types, nodes, "as a type (--as)"),
        (arguments.ignore, [*edges, *nodes], "to ignore"),
    ]
    for names, of, role in checks:
        for name, columns in named_columns(filter(None, names), of):
            if not columns:
                there = ", ".join(dict.fromkeys(column for table, _ in of for column in table.columns)) or "none"
                raise DataError(f"no table has a column '{name}' {role}; there are {there}")


def named_columns(names: Iterable[str], tables: Sequence[tuple[Table, str | None]]) -> Iterator[tuple[str, list[str]]]:
    """Each name, and the columns of tables and their kinds that it means; several names may be given in one, with commas."""
    by_name = [_by_name(table, kind) for table, kind in tables]

    def columns_called(name: str) -> list[str]:
        plain = name.strip().casefold()
        return [columns[plain] for columns in by_name if plain in columns]

    for name in names:
        if whole := columns_called(name):
            yield name, whole
        else:
            for part in [part for part in name.split(",") if part.strip()] or [name]:
                yield part, columns_called(part)


def column_called(name: str | None, table: Table, kind: str | None = None) -> str | None:
    """The column of a table that a name means, in any case, also with the name of its kind; None if there is none."""
    return None if name is None else _by_name(table, kind).get(name.strip().casefold())


def _by_name(table: Table, kind: str | None = None) -> dict[str, str]:
    columns = {column.strip().casefold(): column for column in table.columns}
    if kind is not None:
        columns |= {qualified_name(kind, column.strip()).casefold(): column for column in table.columns}
    return columns

"""Columns by their names: the usual ones, and those that a user says, of one table or of several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clnr.errors import DataError, did_you_mean, one_line, option
from clnr.tables.io.source import Table

SOURCES = ("source", "src", "from", "source_id", "from_id", "head", "u", "node1", "subject")
TARGETS = ("target", "dst", "to", "target_id", "to_id", "dest", "destination", "tail", "v", "node2", "object")
SENDERS = ("sender", "sender_id")
RECEIVERS = ("recipient", "receiver", "recipient_id", "receiver_id", "recipients", "receivers")
WEIGHTS = ("weight", "w", "edge_weight", "strength")
IDS = ("id", "node", "node_id", "nodeid", "key", "name", "index")
LABELS = ("label", "class", "y", "category_label")
NO_COLUMN = ""
"""The name of no column, where one with a common name is not meant."""
RESERVED_SIGNS = frozenset(",:=.")
"""What no name of a kind has in it."""
NODE_KIND, ORIGINAL_ID, NODE_NAME = "node_kind", "original_id", "node_name"
"""The columns that say of which kind a node is, which id it has in its table, and its name if kinds have several columns."""


def node_id(kind: str, original_id: str) -> str:
    """The id of a node of some kind among those of all."""
    return f"{kind}:{original_id}"


def kind_of(node: str) -> str:
    """The kind of a node, by its id among those of all."""
    return node.partition(":")[0]


def id_names(kind: str | None) -> tuple[str, ...]:
    """Common names of the column of ids; first, those of a kind of nodes."""
    return IDS if kind is None else (*of_kind(kind), *IDS)


def end_names(ends: tuple[str, str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Common names of the columns of sources and of targets; first, those of the kinds of nodes that they join."""
    if ends is None or ends[0] == ends[1]:
        return SOURCES, TARGETS
    return (*of_kind(ends[0]), *SOURCES), (*of_kind(ends[1]), *TARGETS)


def of_kind(kind: str) -> tuple[str, ...]:
    """Common names of the column of ids of one kind of nodes."""
    plain = kind.casefold()
    return plain, *(f"{plain}{between}id" for between in ("_", "", " ", "."))


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


def check_apart(weights: Iterable[str | None], edge_time: str | None) -> None:
    """Raise if a column is named as one of weights and as that of times."""
    if edge_time is not None and edge_time in weights:
        weight = option("weight")
        raise DataError(f"column '{edge_time}' cannot be both time and weight of the edges: leave out {weight}")


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
    return _by_name(table, kind).get(name.strip().casefold()) if name else name


def _by_name(table: Table, kind: str | None = None) -> dict[str, str]:
    columns = {column.strip().casefold(): column for column in table.columns}
    if kind is not None:
        columns |= {qualified_name(kind, column.strip()).casefold(): column for column in table.columns}
    return columns

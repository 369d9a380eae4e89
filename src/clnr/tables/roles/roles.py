"""Which column of a table holds what: found by common names, or as the user says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr.errors import DataError
from clnr.tables.columns.units import Unit
from clnr.tables.io.source import Table
from clnr.tables.roles.column_names import (
    IDS,
    LABELS,
    RECEIVERS,
    SENDERS,
    SOURCES,
    TARGETS,
    WEIGHTS,
    end_names,
    find_column,
    id_names,
    named_columns,
)

if TYPE_CHECKING:
    from clnr.tables.table_arguments import TableArguments

# Table and role of columns that extend a graph in the role that they had in it, by the argument that names them.
_REMEMBERED = {
    **{("edges", role): role for role in ("source", "target", "weight")},
    **{("nodes", role): role for role in ("id", "label", "time")},
}


class Roles(NamedTuple):
    """The columns of edges and of nodes by their roles; empty or None where there is none.

    Attributes:
        weight_unit: How weights are written as text.
        fading: Whether edges weigh less by their age.
        guessed: Whether sources and targets are the first columns because no name tells.
        doubt: Why these are hardly the ends of edges, for an error, unless values show other ends.
        time: Of nodes: times that are no feature.
        features: All that may be features.
        types: What some of these hold, as the user says.
        ignored: What the user leaves out.
    """

    source: str = ""
    target: str = ""
    weight: str | None = None
    edge_type: str | None = None
    edge_time: str | None = None
    weight_unit: Unit = Unit()
    fading: bool = False
    guessed: bool = False
    doubt: str = ""
    id: str = ""
    label: str | None = None
    time: str | None = None
    features: tuple[str, ...] = ()
    types: Mapping[str, str] = MappingProxyType({})
    ignored: tuple[str, ...] = ()

    @property
    def weighted(self) -> bool:
        """Whether edges have weights: a column of them, kinds that are balanced, or ages by which they fade."""
        return self.weight is not None or self.edge_type is not None or self.fading


def find_roles(
    edge_table: Table | None,
    node_table: Table | None,
    arguments: TableArguments,
    kind: str | None = None,
    ends: tuple[str, str] | None = None,
) -> Roles:
    """The roles of all columns, as far as the user did not name them in the arguments.

    A table of nodes that is given for one of edges is recognised, and the other way round. Where there are several, the rows
    of a table are of a kind, and edges join nodes of the kinds ``ends``.
    """
    ignored = _named(arguments.ignore, edge_table, node_table)
    tables = {table_title("edges", kind): edge_table, table_title("nodes", kind): node_table}
    arguments = _as_before(arguments, tables, ignored)
    roles = Roles(ignored=ignored)
    if edge_table is not None:
        roles = _with_ends(edge_table, arguments, roles, ends)
        edge_type = find_column(edge_table, arguments.edge_type, (), "edge types")
        time = find_column(edge_table, next(iter(arguments.edge_times), None), (), "edge times")
        roles = roles._replace(edge_type=edge_type, edge_time=time, fading=arguments.half_life is not None)
    if node_table is not None:
        return _of_nodes(node_table, arguments, roles, kind)
    return roles


def _as_before(arguments: TableArguments, tables: dict[str, Table | None], ignored: tuple[str, ...]) -> TableArguments:
    """Keep the roles of columns from the graph that is extended, unless the user names other columns."""
    if arguments.base is None:
        return arguments
    named = {getattr(arguments, argument) for argument in (*_REMEMBERED.values(), "edge_type", "edge_time", "names")}
    remembered: dict[str, Any] = {}
    for info in arguments.base.ingest_report.columns:
        table = tables.get(info.table)
        if table is None or info.column not in table.columns or info.column in (*named, *ignored):
            continue
        for role in info.role.split(" and "):
            argument = _REMEMBERED.get((info.table.partition(" ")[0], role))
            if argument is not None and getattr(arguments, argument) is None:
                remembered[argument] = info.column
    return replace(arguments, **remembered)


def _with_ends(table: Table, arguments: TableArguments, roles: Roles, ends: tuple[str, str] | None) -> Roles:
    """The columns of sources, targets and weights; and whether the first two are guessed."""
    ignored = roles.ignored
    left = [column for column in table.columns if column not in ignored]
    if len(left) < 2:
        raise DataError(f"{table.name}: it has one column, and edges need two; is there another delimiter?")
    source, target, weight = arguments.source, arguments.target, next(iter(arguments.weights), None)
    taken = (weight, arguments.edge_type, *arguments.edge_times, *ignored)
    sources, targets = end_names(ends)
    a = find_column(table, source, sources, "source", (target, *taken))
    b = find_column(table, target, targets, "target", (a, *taken))
    is_statement = find_column(table, None, ("object", "predicate"), "an end", ignored) is not None
    if source is None and target is None and ends is None and not is_statement and (a or "").strip().casefold() == "subject":
        a = None  # Rather that of a message.
    key, guessed = find_column(table, None, IDS, "id"), a is None and b is None
    free = [column for column in left if column not in taken] or left
    if guessed:
        a, b = _sender_and_receiver(table, taken) if ends is None else (None, None)
        a, b = (a, b) if a and b else _alike_structs(free)
    by_place = a is None and b is None
    a = a or next((column for column in free if column != b), free[0])
    b = b or next((column for column in free if column != a), a)
    before = list(table.columns)[: list(table.columns).index(b)] if by_place else []
    if skipped := [column for column in before if column in ignored]:
        unsure = "which columns have the ends of edges; name them: --source, --target"
        raise DataError(f"{table.name}: column '{skipped[0]}' is ignored, so it is not clear {unsure}")
    if a == b:
        raise DataError(f"{table.name}: column '{a}' cannot be both source and target; name two columns: --source, --target")
    weight = find_column(table, weight, WEIGHTS, "weight", (a, b, *taken[1:]))
    doubt = f"it has a column '{key}', and none for source or target" if by_place and key is not None else ""
    return roles._replace(source=a, target=b, weight=weight, guessed=guessed, doubt=doubt)


def _sender_and_receiver(table: Table, taken: Sequence[str | None]) -> tuple[str | None, str | None]:
    return find_column(table, None, SENDERS, "source", taken), find_column(table, None, RECEIVERS, "target", taken)


def _alike_structs(columns: Sequence[str]) -> tuple[str | None, str | None]:
    """The ids of the only two structs with the same fields: ``caller.id`` and ``callee.id``; None if there are not two.

    Nor if two other columns come before them.
    """
    structs: dict[str, dict[str, str]] = {}
    others = 0
    for column in columns:
        struct, dot, field = column.rpartition(".")
        if dot and others < 2:
            structs.setdefault(struct, {})[field.strip().casefold()] = column
        others += not dot and column.strip().casefold() not in IDS
    for fields in structs.values():
        alike = [each for each in structs.values() if each.keys() == fields.keys()]
        if len(alike) == 2:
            field = next((each for each in IDS if each in fields), next(iter(fields)))
            return alike[0][field], alike[1][field]
    return None, None


def _of_nodes(table: Table, arguments: TableArguments, roles: Roles, kind: str | None) -> Roles:
    asked = _named(arguments.features or (), table)
    types = {column: each for name, each in arguments.types.items() for column in _named((name,), table)}
    if both := [column for column in (*asked, *types) if column in roles.ignored]:
        raise DataError(f"column '{both[0]}' cannot be both a feature and ignored; leave out one of the two")
    label, time = arguments.label, arguments.time
    taken = (label, time, *roles.ignored)
    key = find_column(table, arguments.id, id_names(kind), "id", (*taken, *asked))
    if key is None:
        ends = [find_column(table, None, usual, "an end") for usual in (SOURCES, TARGETS)]
        if all(ends):
            raise DataError(
                f"{table.name}: it looks like a table of edges: it has the columns '{ends[0]}' and '{ends[1]}', and none for "
                "ids; give it as --edges, or name the column of ids: --id"
            )
        key = next((column for column in table.columns if column not in roles.ignored), next(iter(table.columns)))
    label = find_column(table, label, LABELS, "label", (key, time, *roles.ignored, *asked))
    time = find_column(table, time, (), "time")
    if label is not None and table.columns[label].kind.endswith("]"):
        raise DataError(
            f"{table.name}: the label '{label}' has a list of values in each row, but a node has one class; select one of "
            f"them by --nodes-query, such as {label}[1]"
        )
    if label is not None and label in (*asked, *types):
        raise DataError(
            f"{table.name}: column '{label}' is the label, which is never a feature; name another --label, or leave it out of "
            f"{'--features' if label in asked else '--as'}"
        )
    if arguments.features is not None:
        features = [column for column in table.columns if column in asked]
    else:
        others = {column for column in (key, label, time, *roles.ignored) if column not in types}
        features = [column for column in table.columns if column not in others]
    return roles._replace(id=key, label=label, time=time, features=tuple(features), types=types)


def _named(names: Iterable[str], *tables: Table | None) -> tuple[str, ...]:
    """Columns of some tables by their names, of the last one that has it."""
    there = [(table, None) for table in tables if table is not None]
    return tuple(columns[-1] for _, columns in named_columns(names, there) if columns)


def table_title(role: str, kind: str | None) -> str:
    """What a table is called in the lines of its columns: ``edges``, or ``edges bought``."""
    return role if kind is None else f"{role} {kind}"

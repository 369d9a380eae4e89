"""Which column of a table holds what: found by common names, or as the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr.errors import DataError, option
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
    column_called,
    end_names,
    find_column,
    id_names,
)

if TYPE_CHECKING:
    from clnr.tables.table_arguments import TableArguments

# Roles that columns which extend a graph have as in it, called as the arguments that name them; others that name columns.
_REMEMBERED = {"edges": ("source", "target", "weight"), "nodes": ("id", "label")}
_NAMED = ("edge_type", "edge_time", "names")


class Roles(NamedTuple):
    """The columns of edges and of nodes by their roles; empty or None where there is none.

    Attributes:
        weight_unit: How weights are written as text.
        guessed: Whether sources and targets are the first columns because no name tells.
        doubt: Why these are hardly the ends of edges, for an error, unless values show other ends.
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
    guessed: bool = False
    doubt: str = ""
    id: str = ""
    label: str | None = None
    features: tuple[str, ...] = ()
    types: Mapping[str, str] = MappingProxyType({})
    ignored: tuple[str, ...] = ()


def _as_before(arguments: TableArguments, table: Table, role: str, kind: str | None) -> TableArguments:
    """Keep the roles of columns from the graph that is extended, unless the user names other columns."""
    if arguments.base is None:
        return arguments
    named = {getattr(arguments, argument) for argument in (*_REMEMBERED["edges"], *_REMEMBERED["nodes"], *_NAMED)}
    remembered: dict[str, Any] = {}
    for info in arguments.base.ingest_report.columns:
        column = column_called(info.column, table) if info.table == table_title(role, kind) else None
        if column not in (None, *named, *arguments.ignore):
            roles = (each for each in info.role.split(" and ") if each in _REMEMBERED[role])
            remembered |= {each: column for each in roles if getattr(arguments, each) is None}
    return replace(arguments, **remembered)


def edge_roles(table: Table, arguments: TableArguments, kind: str | None, ends: tuple[str, str] | None) -> Roles:
    """The roles of the columns of a table of edges, as far as the user did not name them in the arguments: see ``for_edges``.

    A table of nodes that is given for one of edges is recognised. Where there are several tables, its rows are of a kind, and
    join nodes of the kinds ``ends``.
    """
    arguments, ignored = _as_before(arguments, table, "edges", kind), tuple(arguments.ignore)
    left = [column for column in table.columns if column not in ignored]
    if len(left) < 2:
        raise DataError(f"{table.name}: it has one column, and edges need two; is there another delimiter?")
    source, target, weight = (next(iter(arguments.columns_named(name)), None) for name in _REMEMBERED["edges"])
    taken = (weight, arguments.edge_type, arguments.edge_time, *ignored)
    sources, targets = end_names(ends)
    a = find_column(table, source, sources, "source", (target, *taken))
    b = find_column(table, target, targets, "target", (a, *taken))
    is_statement = find_column(table, None, ("object", "predicate"), "an end", ignored) is not None
    if source is None and target is None and ends is None and not is_statement and (a or "").strip().casefold() == "subject":
        a = None  # Rather that of a message.
    key, guessed = find_column(table, None, IDS, "id"), a is None and b is None
    free = [column for column in left if column not in taken] or left
    if guessed:
        if ends is None:
            a, b = find_column(table, None, SENDERS, "source", taken), find_column(table, None, RECEIVERS, "target", taken)
        a, b = (a, b) if a and b else _alike_structs(free)
    by_place = a is None and b is None
    a = a or next((column for column in free if column != b), free[0])
    b = b or next((column for column in free if column != a), a)
    before = list(table.columns)[: list(table.columns).index(b)] if by_place else []
    if skipped := [column for column in before if column in ignored]:
        unsure = f"which columns have the ends of edges; name them: {option('source')}, {option('target')}"
        raise DataError(f"{table.name}: column '{skipped[0]}' is ignored, so it is not clear {unsure}")
    if a == b:
        cure = f"name two columns: {option('source')}, {option('target')}"
        raise DataError(f"{table.name}: column '{a}' cannot be both source and target; {cure}")
    return Roles(
        source=a,
        target=b,
        weight=find_column(table, weight, WEIGHTS, "weight", (a, b, *taken[1:])),
        edge_type=find_column(table, arguments.edge_type, (), "edge types"),
        edge_time=find_column(table, arguments.edge_time, (), option("until")),
        guessed=guessed,
        doubt=f"it has a column '{key}', and none for source or target" if by_place and key is not None else "",
        ignored=ignored,
    )


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


def node_roles(table: Table, arguments: TableArguments, kind: str | None) -> Roles:
    """The same for a table of nodes: see ``for_nodes``. A table of edges that is given for one of nodes is recognised."""
    arguments, ignored = _as_before(arguments, table, "nodes", kind), tuple(arguments.ignore)
    asked, types = tuple(arguments.features or ()), arguments.types
    if both := [column for column in (*asked, *types) if column in ignored]:
        raise DataError(f"column '{both[0]}' cannot be both a feature and ignored; leave out one of the two")
    label = arguments.label
    taken = (label, *ignored)
    key = find_column(table, next(iter(arguments.columns_named("id")), None), id_names(kind), "id", (*taken, *asked))
    if key is None:
        ends = [find_column(table, None, usual, "an end") for usual in (SOURCES, TARGETS)]
        if all(ends):
            raise DataError(
                f"{table.name}: it looks like a table of edges: it has the columns '{ends[0]}' and '{ends[1]}', and none for "
                f"ids; give it as {option('edges')}, or name the column of ids: {option('id')}"
            )
        key = next((column for column in table.columns if column not in ignored), next(iter(table.columns)))
    label = find_column(table, label, LABELS, "label", (key, *ignored, *asked))
    if label is not None and table.columns[label].kind.endswith("]"):
        raise DataError(
            f"{table.name}: the label '{label}' has a list of values in each row, but a node has one class; select one of "
            f"them by a query ({option('nodes', 'SELECT ...')}), such as {label}[1]"
        )
    if label is not None and label in (*asked, *types):
        raise DataError(
            f"{table.name}: column '{label}' is the label, which is never a feature; name another {option('label')}, or leave "
            f"it out of {option('features' if label in asked else 'types')}"
        )
    if arguments.features is not None:
        features = [column for column in table.columns if column in asked]
    else:
        others = {column for column in (key, label, *ignored) if column not in types}
        features = [column for column in table.columns if column not in others]
    return Roles(id=key, label=label, features=tuple(features), types=types, ignored=ignored)


def table_title(role: str, kind: str | None) -> str:
    """What a table is called in the lines of its columns: ``edges``, or ``edges bought``."""
    return role if kind is None else f"{role} {kind}"

"""Nodes of several kinds, such as users and items: a table of each, stored as one table, ids and columns apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from clnr.errors import DataError, option
from clnr.tables.columns.node_columns import all_integers, flat_columns, load_nodes
from clnr.tables.edges.edge_list import ENDS
from clnr.tables.io.source import Column, Table
from clnr.tables.io.sql import Connection, fetch_table, quoted, run
from clnr.tables.roles.column_names import NODE_KIND, NODE_NAME, ORIGINAL_ID, node_id, qualified_name
from clnr.tables.roles.node_names import guess_name, may_name
from clnr.tables.roles.roles import Roles

_GUESSING_ROWS = 1 << 16


class NodeKind(NamedTuple):
    """The nodes of one kind.

    Attributes:
        table: Their rows of the stored table, numbered from 0, and their columns by the names of their own table.
        roles: Which column holds what; without an id, if they have no table.
        names: The column of their names, if there is one.
    """

    name: str
    table: Table
    roles: Roles
    names: str | None = None


class StoredKinds(NamedTuple):
    """The SQL tables ``node_table`` and ``row_ids`` of all kinds.

    Attributes:
        table: The stored table. Its columns are those of each kind, as ``user.age``; of its outputs, those of the same name are
            one column.
        roles: Which of its columns holds what.
        kinds: What is known of each kind.
    """

    table: Table
    roles: Roles
    kinds: tuple[NodeKind, ...]


def load_node_kinds(
    db: Connection,
    tables: Sequence[tuple[str, Table, Roles]],
    bare: Sequence[str],
    whole: bool,
    title: str,
    extends: bool,
    remarks: list[str],
) -> StoredKinds:
    """Load the nodes of several kinds, one kind after the other; the node 7 of the kind ``user`` gets the id ``user:7``.

    Kinds without a table come last. Their nodes are those that the SQL table ``edges`` names, without the ones of an earlier
    graph that this one ``extends``, in the order of their ids. ``whole`` says that these are integers.
    """
    whole = whole and all(all_integers(db, table, roles.id) for _, table, roles in tables)
    parts, kinds, first = [], [], 0
    for number, (name, table, roles) in enumerate([*tables, *((each, Table(title, "", {}), Roles()) for each in bare)]):
        for column in (NODE_KIND, ORIGINAL_ID):
            if column in map(str.casefold, table.columns):
                raise DataError(f"{table.name}: the column name '{column}' is reserved for kinds of nodes; rename it")
        if roles.id:
            stored, repeated = load_nodes(db, table, roles.id, whole, (f"nodes_{number}", f"ids_{number}"))
            remarks += repeated
        else:
            stored = _load_bare(db, table, name, whole, number, extends)
        columns = {each: Column(f"k{number}_{sql}", kind) for each, (sql, kind) in stored.columns.items()}
        renamed = [f"{stored.columns[each].sql} AS {column.sql}" for each, column in columns.items()]
        of_all_kinds = [f"{quoted(name)} AS {NODE_KIND}", f"id AS {ORIGINAL_ID}", f"i + {first} AS i"]
        parts.append(f"SELECT {', '.join(of_all_kinds + renamed)} FROM nodes_{number} JOIN ids_{number} USING (i)")
        rows = f"(SELECT * REPLACE (i - {first} AS i) FROM node_table WHERE {NODE_KIND} = {quoted(name)})"
        kinds.append(NodeKind(name, replace(stored, sql=rows, columns=columns), roles))
        ((count,),) = run(db, f"SELECT count(*) FROM nodes_{number}", table.name)
        first += count
    title = ", ".join(table.name for _, table, _ in tables) or title
    run(db, f"CREATE TEMP TABLE node_table AS {' UNION ALL BY NAME '.join(parts)}", title)
    for number in range(len(kinds)):
        run(db, f"DROP TABLE nodes_{number}", title)
        run(db, f"DROP TABLE ids_{number}", title)
    ids = f"SELECT {NODE_KIND} || {quoted(node_id('', ''))} || CAST({ORIGINAL_ID} AS VARCHAR) AS id, i FROM node_table"
    run(db, f"CREATE TEMP TABLE row_ids AS {ids}", title)
    return StoredKinds(_whole_table(title, whole, kinds), _all_roles(kinds), tuple(kinds))


def _load_bare(db: Connection, table: Table, kind: str, whole: bool, number: int, extends: bool) -> Table:
    """Load what ``load_nodes`` loads, for a kind of nodes without a table."""
    both = f"SELECT id FROM {ENDS} {'ANTI JOIN base_ids USING (id)' if extends else ''}"
    start = node_id(kind, "")
    original = f"CAST(substr(id, {len(start) + 1}) AS {'BIGINT' if whole else 'VARCHAR'})"
    ids = f"SELECT {original} AS id FROM ({both}) WHERE starts_with(id, {quoted(start)})"
    numbered = f"SELECT id, row_number() OVER (ORDER BY id) - 1 AS i FROM ({ids})"
    run(db, f"CREATE TEMP TABLE ids_{number} AS {numbered}", table.name)
    run(db, f"CREATE TEMP TABLE nodes_{number} AS SELECT i FROM ids_{number}", table.name)
    return table


def guess_names(db: Connection, kind: NodeKind) -> str | None:
    """The column of the names of one kind of nodes, by its first rows."""
    roles = kind.roles
    taken = (roles.id, roles.label, *roles.ignored)
    columns = {name: column for name, column in flat_columns(kind.table).items() if name not in taken and may_name(name)}
    if not columns:
        return None
    selected = ", ".join(column.sql for column in columns.values())
    rows = fetch_table(db, f"SELECT {selected} FROM {kind.table.sql} WHERE i < {_GUESSING_ROWS} ORDER BY i", kind.table.name)
    return guess_name(rows.rename_columns(list(columns)), ())


def with_names(stored: StoredKinds, names: Mapping[str, str | None], joined: bool) -> tuple[StoredKinds, str | None]:
    """The stored kinds with a column of names for each, and the one column of the table's outputs that has all names.

    If kinds have names in columns that are called alike, it is that one; else, or if ``joined``, one more, ``node_name``.
    """
    kinds = tuple(kind._replace(names=names.get(kind.name)) for kind in stored.kinds)
    outputs = dict(stored.table.outputs or {})
    by_plain_name = {name.strip().casefold(): name for name in outputs}
    named = [kind for kind in kinds if kind.names is not None]
    called = {str(kind.names).strip().casefold() for kind in named}
    if not called or (len(called) == 1 and not joined) or NODE_NAME in by_plain_name:
        first = next((str(kind.names).strip().casefold() for kind in named), None)
        return stored._replace(kinds=kinds), None if first is None else by_plain_name[first]
    texts = (f"CAST({kind.table.columns[str(kind.names)].sql} AS VARCHAR)" for kind in named)
    outputs[NODE_NAME] = Column(f"coalesce({', '.join(texts)})", "VARCHAR")
    return stored._replace(kinds=kinds, table=replace(stored.table, outputs=outputs)), NODE_NAME


def _whole_table(title: str, whole: bool, kinds: Sequence[NodeKind]) -> Table:
    of_all_kinds = {NODE_KIND: Column(NODE_KIND, "VARCHAR"), ORIGINAL_ID: Column(ORIGINAL_ID, "BIGINT" if whole else "VARCHAR")}
    columns = dict(of_all_kinds)
    alike: dict[str, list[tuple[str, Column]]] = defaultdict(list)
    for kind in kinds:
        columns |= {qualified_name(kind.name, name): column for name, column in kind.table.columns.items()}
        for name, column in flat_columns(kind.table).items():
            alike[name.strip().casefold()].append((name, column))
    merged = {columns_alike[0][0]: _either([column for _, column in columns_alike]) for columns_alike in alike.values()}
    return Table(title, "node_table", columns, outputs=of_all_kinds | merged)


def _either(columns: list[Column]) -> Column:
    """Columns of several kinds as one: of their common type, else as text."""
    if len({column.kind for column in columns}) == 1:
        return Column(f"coalesce({', '.join(column.sql for column in columns)})", columns[0].kind)
    return Column(f"coalesce({', '.join(f'CAST({column.sql} AS VARCHAR)' for column in columns)})", "VARCHAR")


def _all_roles(kinds: Sequence[NodeKind]) -> Roles:
    labels = [qualified_name(kind.name, kind.roles.label) for kind in kinds if kind.roles.label is not None]
    if len(labels) > 1:
        raise DataError(
            f"there are labels of several kinds of nodes, {' and '.join(labels)}, and classes are those of one kind; choose "
            f"one: {option('label', labels[0])}"
        )
    names = [qualified_name(kind.name, column) for kind in kinds for column in kind.roles.features]
    return Roles(id=ORIGINAL_ID, label=labels[0] if labels else None, features=tuple(names))

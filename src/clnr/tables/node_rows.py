"""Nodes of tables: staged as numbered rows of all kinds, with their ids, names, labels and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clnr.errors import DataError, one_line, option
from clnr.support.humanize import plural
from clnr.tables.columns.feature_encoder import fetch_chunks
from clnr.tables.columns.infer import NEARLY_ALL
from clnr.tables.io.open import Table
from clnr.tables.io.sql import (
    DATETIMES,
    NUMBERS,
    WHOLE,
    Column,
    Connection,
    as_text,
    plain_id,
    quoted,
    run,
    stream_arrow,
)
from clnr.tables.kinds import NODE_KIND, NODE_NAME, ORIGINAL_ID, NamedTable, node_id, qualified_name
from clnr.tables.roles import NAMES, NodeRoles, columns_called, plain
from clnr.tables.table_arguments import TableArguments

ENDS = "(SELECT s AS id FROM edges UNION SELECT t FROM edges)"
"""The distinct ids of the SQL table ``edges``, to write after FROM."""
_WIDE = ("HUGEINT", "UHUGEINT", "UBIGINT", "DECIMAL")


class StagedKind(NamedTuple):
    """The staged nodes of one kind.

    Attributes:
        kind: Its name; None where nodes are of one kind.
        table: Their rows, and the columns of their own table.
        roles: Which of these holds what.
        names: The column with their names, if there is one.
    """

    kind: str | None
    table: Table
    roles: NodeRoles
    names: str | None


class StagedNodes(NamedTuple):
    """The SQL table ``node_rows``: id, i, and the columns of all kinds.

    Attributes:
        table: Its columns, with the names of their kinds, if there are kinds.
        kinds: What is known of each kind that has a table.
        of_kinds: Whether nodes have kinds.
        whole: Whether ids are whole numbers of typed tables.
    """

    table: Table
    kinds: tuple[StagedKind, ...]
    of_kinds: bool
    whole: bool

    @property
    def label(self) -> str | None:
        """The column of labels, if there is one."""
        return next((qualified_name(each.kind, each.roles.label) for each in self.kinds if each.roles.label), None)


def stage_nodes(
    db: Connection, tables: Sequence[tuple[NamedTable, NodeRoles]], kinds: Sequence[str], arguments: TableArguments, whole: bool
) -> StagedNodes:
    """Make the SQL table ``node_rows`` of the rows of all tables, one kind after the other."""
    title = ", ".join(named.table.name for named, _ in tables) or "the nodes"
    columns = {name: Column(name, "VARCHAR") for name in (NODE_KIND, ORIGINAL_ID) if kinds}
    own = [
        {name: Column(f"k{number}_{column.sql}", column.kind) for name, column in named.table.columns.items()}
        for number, (named, _) in enumerate(tables)
    ]
    for (named, _), of_table in zip(tables, own, strict=True):
        columns |= {qualified_name(named.kind, name): column for name, column in of_table.items()}
    declared = ", ".join(f"{column.sql} {column.kind}" for column in columns.values())
    run(db, f"CREATE TEMP TABLE node_rows (id VARCHAR, i BIGINT{', ' if declared else ''}{declared})", title)
    staged, first = list[StagedKind](), 0
    for (named, roles), of_table in zip(tables, own, strict=True):
        table, rows = named.table, "node_rows"
        key, selected = (
            plain_id(table.columns[roles.id].sql),
            [f"{table.columns[name].sql} AS {column.sql}" for name, column in of_table.items()],
        )
        if kinds and (taken := {NODE_KIND, ORIGINAL_ID} & {name.casefold() for name in table.columns}):
            raise DataError(f"{table.name}: the column name '{min(taken)}' is reserved for kinds of nodes; rename it")
        if named.kind is not None:
            selected += [f"{quoted(named.kind)} AS {NODE_KIND}", f"{key} AS {ORIGINAL_ID}"]
            key = f"{quoted(node_id(named.kind, ''))} || {key}"
            rows = f"(SELECT * REPLACE (i - {first} AS i) FROM node_rows WHERE {NODE_KIND} = {quoted(named.kind)})"
        numbered = f"SELECT {key} AS id, {first} + row_number() OVER () - 1 AS i, {', '.join(selected)} FROM {table.sql}"
        run(db, f"INSERT INTO node_rows BY NAME {numbered}", table.name)
        of_kind = StagedKind(named.kind, Table(table.name, rows, of_table), roles, None)
        staged.append(of_kind._replace(names=_names(db, of_kind, arguments)))
        first += _check_ids(db, of_kind)
    if len(labels := [each.roles.label for each in staged if each.roles.label]) > 1:
        one = option("label", f"KIND.{labels[0]}")
        raise DataError(f"{title}: there are labels of several kinds of nodes; name that of one: {one}")
    return StagedNodes(Table(title, "node_rows", columns), tuple(staged), bool(kinds), whole)


def _check_ids(db: Connection, of: StagedKind) -> int:
    """How many nodes there are; raise unless each row has an id of its own."""
    title, key = of.table.name, f"'{of.roles.id}', taken as the id,"
    ((count, empty),) = run(db, f"SELECT count(*), min(i) FILTER (id IS NULL) + 1 FROM {of.table.sql}", title)
    if not count:
        raise DataError(f"{title}: it has no nodes")
    if empty is not None:
        raise DataError(f"{title}: {key} is missing in row {empty:,}; fill it in, or name another column: {option('id')}")
    twice = f"SELECT id, min(i) + 1, max(i) + 1 FROM {of.table.sql} GROUP BY id HAVING count(*) > 1 ORDER BY 3 LIMIT 1"
    for node, first, second in run(db, twice, title):
        cure = f"keep one row of a node, or name another column: {option('id')}"
        plain_node = node if of.kind is None else node.partition(":")[2]
        raise DataError(f"{title}: {key} is '{one_line(plain_node, 80)}' in rows {first:,} and {second:,}; {cure}")
    return int(count)


def add_nodes(db: Connection, staged: StagedNodes, of_kind: str | None, known: bool) -> int:
    """Add nodes that edges name and no row has, of a kind or of all: rows with empty columns; returns how many.

    Where nodes are ``known`` from an earlier graph, none is added twice.
    """
    start, title = node_id(of_kind, "") if of_kind is not None else "", staged.table.name
    new = f"SELECT id FROM {ENDS} ANTI JOIN node_rows USING (id){' ANTI JOIN base_ids USING (id)' if known else ''}"
    original = f"substr(id, {len(start) + 1})"
    kind = "" if of_kind is None else f", {quoted(of_kind)} AS {NODE_KIND}, {original} AS {ORIGINAL_ID}"
    ((count,),) = run(db, "SELECT coalesce(max(i) + 1, 0) FROM node_rows", title)
    order = f"TRY_CAST({original} AS HUGEINT) NULLS LAST, id"
    place = f"{count} + row_number() OVER (ORDER BY {order}) - 1 AS i"
    added = f"SELECT id, {place}{kind} FROM ({new}) WHERE starts_with(id, {quoted(start)})"
    run(db, f"INSERT INTO node_rows BY NAME {added}", title)
    ((after,),) = run(db, "SELECT coalesce(max(i) + 1, 0) FROM node_rows", title)
    return int(after - count)


def number_ids(db: Connection, earlier: int | None) -> int:
    """Make the SQL relation ``ids`` of all nodes and their indices, those of an earlier graph first; returns their number."""
    if earlier is None:
        run(db, "CREATE TEMP VIEW ids AS SELECT id, i FROM node_rows", "nodes")
    else:
        fresh = "SELECT id, row_number() OVER (ORDER BY i) - 1 AS i FROM node_rows ANTI JOIN base_ids USING (id)"
        run(
            db,
            f"CREATE TEMP TABLE ids AS SELECT id, i FROM base_ids UNION ALL SELECT id, i + {earlier} FROM ({fresh})",
            "nodes",
        )
    return int(run(db, "SELECT count(*) FROM ids", "nodes")[0][0])


def write_ids(db: Connection, writer: Any, whole: bool) -> None:
    value = "CAST(id AS BIGINT) AS id" if whole else "id"
    writer.ids(column for (column,) in stream_arrow(db, f"SELECT {value} FROM ids ORDER BY i", "nodes"))


def fit_integers(db: Connection) -> bool:
    """Whether the ids of all nodes, which are whole numbers, fit into 64 bits."""
    return bool(run(db, "SELECT count(*) = count(TRY_CAST(id AS BIGINT)) FROM ids", "nodes")[0][0])


def are_whole(columns: Sequence[Column]) -> bool:
    """Whether ids are whole numbers of typed tables; those of text files are text."""
    return all(column.is_of(WHOLE) for column in columns)


# -- names ----------------------------------------------------------------------------------------------------------------


def _names(db: Connection, of: StagedKind, arguments: TableArguments) -> str | None:
    """The column of names: the one that is named, else one called so nearly all of whose values differ."""
    if of.roles.names is not None:
        if not of.table.columns[of.roles.names].is_single:
            raise DataError(f"{of.table.name}: '{of.roles.names}' has several values in a row, and is no name")
        return of.roles.names
    asked = columns_called((*arguments.names_of("features"), *arguments.types), of.table, of.kind)
    for name in (each for wanted in NAMES for each in of.roles.free if plain(each) == wanted):
        column = of.table.columns[name]
        if name in asked or not column.is_of(("VARCHAR",)) or arguments.names is not None:
            continue
        value = as_text(column.sql)
        ((count, distinct),) = run(db, f"SELECT count({value}), count(DISTINCT {value}) FROM {of.table.sql}", of.table.name)
        if count and distinct >= NEARLY_ALL * count and 2 * count > _rows(db, of.table):
            return name
    return None


def _rows(db: Connection, table: Table) -> int:
    return int(run(db, f"SELECT count(*) FROM {table.sql}", table.name)[0][0])


def name_column(staged: StagedNodes) -> str | None:
    """The one column of ``written_columns`` that has all names; None if there are none."""
    named = [each for each in staged.kinds if each.names is not None]
    if staged.of_kinds:
        return NODE_NAME if named else None
    return named[0].names if named else None


# -- labels ---------------------------------------------------------------------------------------------------------------


def write_labels(db: Connection, writer: Any, staged: StagedNodes, known: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The names of all classes, and notes; ``known`` ones come first, new ones in the order of numbers, else of text."""
    label, table = staged.label, staged.table
    if label is None:
        return tuple(known), []
    column = table.columns[label]
    if not column.is_single:
        raise DataError(f"{table.name}: the label '{label}' has several values in a row, and a node has one class")
    value = plain_id(column.sql)
    distinct = f"SELECT DISTINCT {value} AS class FROM node_rows WHERE class IS NOT NULL"
    ordered = run(db, f"{distinct} ORDER BY TRY_CAST(class AS DOUBLE) NULLS LAST, class", table.name)
    new = [name for (name,) in ordered if name not in set(known)]
    names = (*known, *new)
    # To register a table of Arrow, DuckDB would import pandas.
    listed = "SELECT unnest(CAST(? AS VARCHAR[])) AS class, unnest(range(?)) AS c"
    run(db, f"CREATE OR REPLACE TEMP TABLE classes AS {listed}", table.name, [list(names), len(names)])
    joined = f"(SELECT {value} AS class, i FROM node_rows) LEFT JOIN classes USING (class)"
    with writer.array("labels.values") as append:
        for (classes,) in stream_arrow(db, f"SELECT coalesce(c, -1) AS c FROM {joined} ORDER BY i", table.name):
            append(classes.to_numpy())
    ((labelled,),) = run(db, f"SELECT count({value}) FROM node_rows", table.name)
    notes = []
    if not known and labelled and len(names) > max(20, labelled // 5):
        notes.append(f"labels: {plural(labelled, 'node')} in {len(names):,} classes, few of each; are these classes?")
    if known and new:
        notes.append(f"{table.name}: the earlier graph has no class {one_line(', '.join(new), 200)} of '{label}'")
    return names, notes


# -- other columns ----------------------------------------------------------------------------------------------------------


def written_columns(staged: StagedNodes) -> dict[str, str]:
    """What is kept beside the graph, in SQL by name: all but nested values.

    Columns of several kinds that are called alike are one column. Times with a time zone become UTC, since not every machine
    knows every zone.
    """
    kept = {name: column.sql for name, column in staged.table.columns.items() if name in (NODE_KIND, ORIGINAL_ID)}
    alike: dict[str, list[tuple[str, str, str]]] = {}
    for each in staged.kinds:
        for name, column in each.table.columns.items():
            if column.is_single:
                sql, kind = _kept(column, name == each.roles.id and not staged.of_kinds, staged.whole)
                alike.setdefault(name.casefold(), []).append((name, sql, kind))
    for columns in alike.values():
        same = len({kind for _, _, kind in columns}) == 1
        values = [sql if same else f"CAST({sql} AS VARCHAR)" for _, sql, _ in columns]
        kept[columns[0][0]] = values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"
    if (of_all := name_column(staged)) == NODE_NAME:
        texts = (as_text(each.table.columns[each.names].sql) for each in staged.kinds if each.names is not None)
        kept[of_all] = f"coalesce({', '.join(texts)}, NULL)"
    return kept


def _kept(column: Column, is_id: bool, whole: bool) -> tuple[str, str]:
    """What is kept of a column, in SQL, and its type."""
    c, kind = column
    if is_id:
        return ("id" if not whole else "CAST(id AS BIGINT)"), "id"
    if column.is_of(_WIDE):  # DuckDB's decimals become types that not every Arrow knows.
        return f"CAST({c} AS DOUBLE)", "DOUBLE"
    if column.is_of(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")):
        return f"CAST(CAST({c} AS TIMESTAMPTZ) AS TIMESTAMP)", "TIMESTAMP"
    if column.is_of(("VARCHAR", "BOOLEAN", *NUMBERS, *DATETIMES)):
        return c, kind
    return f"CAST({c} AS VARCHAR)", "VARCHAR"


def column_parts(db: Connection, staged: StagedNodes) -> Iterator[Any]:
    """The kept columns as Arrow tables, some rows at a time."""
    import pyarrow as pa

    kept = written_columns(staged)
    texts = [name for name, column in staged.table.columns.items() if column.kind == "VARCHAR"]
    for arrays in fetch_chunks(db, staged.table, list(kept.values()), texts, len(kept)):
        yield pa.table(dict(zip(kept, arrays, strict=True)))


def digest_unused(db: Connection, staged: StagedNodes, used: Mapping[str, Any] | set[str]) -> str:
    """A digest of the columns that make no features, such as names, with their values in the order of nodes."""
    kept = written_columns(staged)
    qualified = {qualified_name(each.kind, name) for each in staged.kinds for name in each.table.columns} & set(used)
    plain_used = {name.rpartition(".")[2] if staged.of_kinds else name for name in qualified}
    unused = {name: c for name, c in kept.items() if name not in plain_used}
    if not unused:
        return ""
    values = ", ".join(["i", *(f"coalesce(CAST({c} AS VARCHAR), chr(30))" for c in unused.values())])
    sql = f"SELECT bit_xor(md5_number_lower(concat_ws(chr(31), {values}))) FROM node_rows"
    return " ".join([str(run(db, sql, staged.table.name)[0][0]), *unused])

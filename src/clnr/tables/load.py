"""Tables loaded into DuckDB: edges with their weights, nodes with their ids, and which column holds what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from clnr.errors import DataError, one_line, option
from clnr.graph.csr import Array
from clnr.tables.argument_checks import node_kinds
from clnr.tables.columns.column_queries import run_column_queries
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.node_columns import all_integers, flat_columns, load_nodes
from clnr.tables.columns.notations import NOTATIONS, find_notation
from clnr.tables.columns.units import Unit, query_unit
from clnr.tables.edges.edge_list import MergeForm
from clnr.tables.edges.end_columns import find_ends, known_ends, lists_hint
from clnr.tables.edges.load_edges import TablesAndRoles, edges_title, load_edges
from clnr.tables.edges.two_kinds import two_kinds_hint
from clnr.tables.ingest_report import ColumnInfo
from clnr.tables.io.csv_header import ROWS
from clnr.tables.io.feature_matrix import FeatureMatrix
from clnr.tables.io.source import Table, describe
from clnr.tables.io.sql import Connection, run, trimmed
from clnr.tables.node_kinds import NodeKind, StoredKinds, guess_names, load_node_kinds, with_names
from clnr.tables.roles.column_names import NODE_NAME, column_called, find_column, id_names, qualified_name
from clnr.tables.roles.described_columns import describe_edges, describe_nodes
from clnr.tables.roles.id_column import find_id_column
from clnr.tables.roles.node_names import guess_name
from clnr.tables.roles.roles import Roles, edge_roles, node_roles, table_title
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_kinds import NamedTable, OpenTables, check_named, for_edges, for_nodes

# The most columns of a table: with 30 rows, 20,000 took 43 s of CPU time on an ARM core.
_MOST_COLUMNS = 20_000
_MATRIX_ROW = "row of the matrix"


class Loaded(NamedTuple):
    """Tables that are in DuckDB: ``edges`` by ``load_edges``, and ``node_table`` and ``row_ids`` by ``load_nodes``.

    Attributes:
        edges: Where edges came from, and which column of each table holds what; empty if there are none.
        node_table: The stored table of nodes; None if there is none.
        node_kinds: What is known of each kind of nodes; empty if nodes have no kinds.
        roles: Which column of the node table holds what.
        names: The column of node names that the user chose, if any.
        as_integers: Whether ids are integers; else they are text.
        merging: How repeated edges are merged.
        hint: What should rather be run, if anything; see ``IngestReport``.
    """

    edges: TablesAndRoles
    node_table: Table | None
    node_kinds: tuple[NodeKind, ...]
    matrix: FeatureMatrix | None
    roles: Roles
    names: str | None
    as_integers: bool
    merging: MergeForm
    remarks: list[str]
    hint: str

    @property
    def edges_title(self) -> str:
        """What to call the tables of edges in messages; empty if there are none."""
        return edges_title(self.edges)

    @property
    def from_edges(self) -> bool:
        """Whether nodes are known from edges alone."""
        of_kinds = self.node_table is not None and self.node_table.outputs is not None
        return self.node_table is None or (of_kinds and not any(kind.roles.id for kind in self.node_kinds))

    def describe(self, db: Connection, names: str | None, encoder: FeatureEncoder) -> tuple[ColumnInfo, ...]:
        """How each column was read, given the column of names and the feature encoder."""
        infos = []
        for edges, roles in self.edges:
            whole = self.as_integers or (edges.ends is not None and all_integers(db, edges.table, roles.source, roles.target))
            infos += describe_edges(db, edges.table, roles, whole, edges.kind)
        if encoder.node_kinds:
            first = encoder.column_encoders[0]
            infos.append(ColumnInfo("nodes", first.column, "feature", first.kind, first.summary, first.width))
        for each in (kind for kind in self.node_kinds if kind.roles.id):
            whole = all_integers(db, each.table, each.roles.id)
            infos += describe_nodes(db, each.table, each.roles, whole, each.name, each.names, encoder.of_kind(each.name))
        if self.node_table is not None and self.node_table.outputs is None:
            infos += describe_nodes(db, self.node_table, self.roles, self.as_integers, None, names, encoder)
        if self.matrix is not None and encoder.matrix is not None:
            kind, note = "sparse matrix" if encoder.matrix.sparse else "dense matrix", "divided by one number"
            infos.append(ColumnInfo("matrix", self.matrix.name, "feature", kind, note, encoder.matrix.width))
        return tuple(infos)


def load_tables(db: Connection, tables: OpenTables, arguments: TableArguments) -> Loaded:
    """Load the tables of edges and nodes into DuckDB, their columns found."""
    opened = [*((each.table, "edges") for each in tables.edges), *((each.table, "nodes") for each in tables.nodes)]
    for table, role in opened:
        _check_width(table, role)
    remarks = [line for table, role in opened for line in _about_header(table, role, arguments, len(opened) > 1)]
    wrong = f"if that is wrong, set {option('encoding')}"
    remarks += [f"{table.name}: read as {table.encoding}; {wrong}" for table, _ in opened if table.encoding]
    edges, nodes = _find_all_roles(tables, arguments)
    edges = _with_ends(db, edges, nodes, arguments, remarks)
    nodes = tuple((each, _with_ids(db, each, roles, edges, arguments, remarks)) for each, roles in nodes)
    remarks += _missing_columns(nodes, arguments)
    hints = []
    for each, roles in edges:
        may_join = [(of.table, its.id) for of, its in nodes if of.kind is None or of.kind in (each.ends or ())]
        hints.append(lists_hint(db, each.table, roles, may_join))
    hint = next(filter(None, hints), "")
    edges = tuple((each, _with_unit(db, each, roles, arguments)) for each, roles in edges)
    matrix = None if arguments.feature_matrix is None else FeatureMatrix.open(arguments.feature_matrix)
    earlier = None if arguments.base is None else arguments.base.graph.node_ids
    if kinds := node_kinds(arguments):
        merging = load_edges(db, edges, False, arguments, remarks)
        _register_base(db, earlier, False)
        named = [(str(each.kind), each.table, roles) for each, roles in nodes]
        # The nodes of an earlier graph have a table.
        bare = [] if nodes and earlier is not None else [kind for kind in kinds if kind not in {each.kind for each, _ in nodes}]
        whole = not bare or _integer_ends(db, edges)
        stored = load_node_kinds(db, named, bare, whole, edges_title(edges), earlier is not None, remarks)
        if nodes:
            remarks += [f"nodes of the kind '{kind}' have no table; they come from the edges" for kind in bare]
        stored, name_column = _name_kinds(db, stored, arguments)
        rest = (stored.roles, name_column, False, merging, remarks, hint)
        return Loaded(edges, stored.table, stored.kinds, matrix, *rest)
    node_table, roles = (nodes[0][0].table, nodes[0][1]) if nodes else (None, Roles())
    name_column = _name_column(node_table, roles.id, arguments)
    if matrix is not None and node_table is None:
        if arguments.base is not None:
            raise DataError(f"{matrix.name}: a feature matrix needs a node table ({option('nodes')})")
        import pyarrow as pa

        db.register("numbered_nodes", pa.table({_MATRIX_ROW: np.arange(matrix.shape[0])}))
        node_table, roles = describe(db, "the feature matrix", "numbered_nodes"), Roles(id=_MATRIX_ROW)
    as_integers = (earlier is None or earlier.dtype.kind in "iu") and _integer_ends(db, edges)
    as_integers = as_integers and (node_table is None or all_integers(db, node_table, roles.id))
    merging = load_edges(db, edges, as_integers, arguments, remarks)
    _register_base(db, earlier, as_integers)
    if node_table is not None:
        node_table, repeated = load_nodes(db, node_table, roles.id, as_integers)
        if matrix is not None and repeated:
            raise DataError(f"{matrix.name}: row i of the matrix is row i of the nodes, but nodes repeat: {repeated[0]}")
        remarks += repeated
        merging = merging._replace(ids=roles.id)
    if not hint and earlier is None and arguments.feature_encoder is None and len(edges) == 1:
        ((plain, of_edges),) = edges
        if of_edges.guessed and plain.kind is None:
            hint = two_kinds_hint(db, plain.table, of_edges._replace(id=roles.id), arguments, node_table, as_integers)
    loaded = Loaded(edges, node_table, (), matrix, roles, name_column, as_integers, merging, remarks, hint)
    if matrix is not None:
        _check_matrix(db, matrix, loaded)
    return loaded


def _register_base(db: Connection, earlier: Array | None, as_integers: bool) -> None:
    """Make the SQL relation ``base_ids`` of the ids of an earlier graph and their indices, if there is one."""
    if earlier is not None:
        import pyarrow as pa

        old = pa.array(earlier, pa.int64()) if as_integers else pa.array([str(each) for each in earlier.tolist()], pa.string())
        db.register("base_ids", pa.table({"id": old, "i": pa.array(np.arange(len(earlier)))}))


def _find_all_roles(tables: OpenTables, arguments: TableArguments) -> tuple[TablesAndRoles, TablesAndRoles]:
    check_named(arguments, tables)
    edges = tuple(
        (each, edge_roles(each.table, for_edges(arguments, each.table), each.kind, each.ends)) for each in tables.edges
    )
    _check_apart(edges)
    return edges, tuple(
        (each, node_roles(each.table, for_nodes(arguments, each.table, each.kind), each.kind)) for each in tables.nodes
    )


def _check_apart(edges: TablesAndRoles) -> None:
    """Raise if two kinds of edges are the same columns of one file."""
    seen: dict[tuple[Any, ...], str | None] = {}
    for (table, kind, ends), roles in edges:
        other = seen.setdefault((table.name, ends, roles.source, roles.target), kind)
        if other != kind:
            cure = f"give a file for each, or one with the kinds in a column ({option('edge_type')})"
            both = f"'{roles.source}' and '{roles.target}' of {table.name}"
            raise DataError(f"edges '{other}' and '{kind}' are both read from {both}; {cure}")


def _with_ends(
    db: Connection, edges: TablesAndRoles, nodes: TablesAndRoles, arguments: TableArguments, remarks: list[str]
) -> TablesAndRoles:
    """The tables of edges, their ends found by values where no name tells."""
    found, has_nodes = [], bool(nodes) or arguments.feature_matrix is not None
    node_table, key = (nodes[0][0].table, nodes[0][1].id) if nodes else (None, "")
    said = arguments.source or arguments.target or arguments.base is not None
    for each, roles in edges:
        note = ""
        if roles.guessed and (each.ends is None or roles.doubt):
            roles, note = find_ends(db, each.table, roles, None if each.ends else node_table, key, has_nodes)
        elif node_table is not None and each.ends is None and not said:
            roles, note = known_ends(db, each.table, roles, node_table, key)
        remarks += [note] if note else []
        found.append((each, roles))
    return tuple(found)


def _with_ids(
    db: Connection, nodes: NamedTable, roles: Roles, edges: TablesAndRoles, arguments: TableArguments, remarks: list[str]
) -> Roles:
    """The roles of a table of nodes, its column of ids found by values, unless it is named or an earlier graph knows it."""
    named = for_nodes(arguments, nodes.table, nodes.kind)
    if named.id is not None or arguments.base is not None:
        return roles
    ends = [
        (each.table, column)
        for each, of in edges
        for kind, column in zip(each.ends or (None, None), (of.source, of.target), strict=True)
        if kind == nodes.kind
    ]
    taken = (named.label, *roles.ignored, *roles.types, *(roles.features if arguments.features is not None else ()))
    common = roles.id.strip().casefold() in id_names(nodes.kind)
    column, note = find_id_column(db, nodes.table, roles, ends, common, taken)
    remarks += filter(None, [note])
    return roles if column == roles.id else node_roles(nodes.table, replace(named, id=column), nodes.kind)


def _missing_columns(nodes: TablesAndRoles, arguments: TableArguments) -> list[str]:
    """A note about columns of an earlier feature encoder that tables of nodes lack; a warning if these are all of them."""
    given = arguments.feature_encoder if arguments.base is None else arguments.base.feature_encoder
    columns = {qualified_name(each.kind, name) if each.kind else name for each, _ in nodes for name in each.table.columns}
    kinds = {each.kind or "" for each, _ in nodes}
    encoded = [each.column for each in (() if given is None else given.column_encoders) if each.node_kind in kinds]
    lacks = [f"'{column}'" for column in encoded if column not in columns]
    if not lacks:
        return []
    title = ", ".join(each.table.name for each, _ in nodes)
    has_others_alone = len(lacks) == len(encoded) and any(roles.features for _, roles in nodes)
    found = f"it lacks {', '.join(lacks)}{', all columns of the model' if has_others_alone else ''}; all values are missing"
    return [f"{'warning: ' if has_others_alone else ''}{title}: {found}"]


def _with_unit(db: Connection, edges: NamedTable, roles: Roles, arguments: TableArguments) -> Roles:
    """The roles of a table of edges, with the unit and notation of its weights; the unit must be that of an earlier graph."""
    if roles.weight is None:
        return roles
    table, unit, text = edges.table, Unit(), trimmed(edges.table.columns[roles.weight].sql)
    other = f"TRY_CAST({text} AS DOUBLE) IS NULL AND {text} IS NOT NULL"
    if run(db, f"SELECT 1 FROM {table.sql} WHERE {other} LIMIT 1", table.name):
        unit = Unit(notation=find_notation(db, table, roles.weight))
        if NOTATIONS.get(unit.notation) != "number":
            (unit,) = run_column_queries(db, table.name, [query_unit(table, roles.weight)])
    earlier = () if arguments.base is None else arguments.base.ingest_report.columns
    for info in (each for each in earlier if (each.table, each.role) == (table_title("edges", edges.kind), "weight")):
        now, before = (words.partition(",")[0] if words[:3] == "in " else "without a unit" for words in (unit.words, info.note))
        if before != now:
            other = f"and those of the earlier graph {before}; convert them"
            raise DataError(f"{table.name}: weights in '{roles.weight}' are {now}, {other}")
    return roles._replace(weight_unit=unit)


def _integer_ends(db: Connection, edges: TablesAndRoles) -> bool:
    return all(all_integers(db, each.table, roles.source, roles.target) for each, roles in edges)


def _check_matrix(db: Connection, matrix: FeatureMatrix, loaded: Loaded) -> None:
    """Raise unless the rows of a feature matrix are those of nodes."""
    assert loaded.node_table is not None
    rows = matrix.shape[0]
    ((count,),) = run(db, "SELECT count(*) FROM row_ids", loaded.node_table.name)
    if count != rows:
        sizes = f"it has {rows:,} rows, and {loaded.node_table.name} has {count:,}"
        raise DataError(f"{matrix.name}: {sizes}; row i of both must be the same node")
    if loaded.roles.id == _MATRIX_ROW and loaded.edges:
        for column in "st":
            for (end,) in run(db, f"SELECT {column} FROM edges ANTI JOIN row_ids ON {column} = id LIMIT 1", "edges"):
                cure = f"give a node table ({option('nodes')}) whose rows are in the order of the matrix"
                raise DataError(
                    f"{matrix.name}: without a node table its rows are the nodes 0 to {rows - 1:,}, and an edge has node "
                    f"'{one_line(str(end), 80)}'; {cure}"
                )


def name_of(loaded: Loaded, columns: Any, arguments: TableArguments) -> str | None:
    """The column of node names: the one that the user chose, that of ``base``, or a guess by some rows of all columns."""
    if arguments.names is not None or arguments.base is not None or loaded.node_table is None or loaded.node_kinds:
        return loaded.names
    roles = loaded.roles
    return guess_name(columns, [roles.id, roles.label, *roles.ignored])


def _name_kinds(db: Connection, stored: StoredKinds, arguments: TableArguments) -> tuple[StoredKinds, str | None]:
    """Where each kind of nodes has its names: in the column that the user chose, that of ``base``, or one that is guessed."""
    base, chosen = arguments.base, _name_column(stored.table, stored.roles.id, arguments)
    if arguments.names is None and (base is None or chosen == NODE_NAME):
        earlier = () if base is None else base.ingest_report.columns
        known = {info.table: info.column for info in earlier if "name" in info.role.split(" and ")}
        name_columns = {
            kind.name: guess_names(db, kind) if base is None else column_called(known.get(f"nodes {kind.name}"), kind.table)
            for kind in stored.kinds
        }
        stored, name_column = with_names(stored, name_columns, joined=base is not None)
        return stored, name_column if base is None else chosen
    kinds = tuple(kind._replace(names=column_called(chosen, kind.table)) for kind in stored.kinds)
    return stored._replace(kinds=kinds), chosen


def _name_column(node_table: Table | None, key: str, arguments: TableArguments) -> str | None:
    """The column of names that the user chose, else that of ``base``; the id column means none."""
    if arguments.names is None:
        return None if arguments.base is None else arguments.base.ingest_report.names
    if node_table is None:
        raise DataError(f"column '{arguments.names}' for names needs a node table")
    column = find_column(replace(node_table, columns=flat_columns(node_table)), arguments.names, (), "names")
    return None if column == key else column


def _check_width(table: Table, role: str) -> None:
    """Raise if a table has more columns than are read in reasonable time."""
    if (count := len(table.columns)) > _MOST_COLUMNS:
        matrix = "numbers can be given as a matrix beside it (.npy, .npz); " if role == "nodes" else ""
        raise DataError(
            f"{table.name}: it has {count:,} columns, and a table may have {_MOST_COLUMNS:,}; {matrix}a query selects some: "
            f"--{role} 'SELECT ... FROM ...'"
        )


def _about_header(table: Table, role: str, arguments: TableArguments, beside: bool) -> list[str]:
    """A note where nobody said what the first line is, or where it was said of two tables and does not look so."""
    row, _ = ROWS[role]
    unsaid = table.no_header and arguments.header is None
    doubtful = table.looks_otherwise and beside
    if table.is_text and not table.no_header and arguments.header is False:
        return [f"{table.name}: its first line is a header, since it has common or given column names"]
    if not (unsaid or doubtful):
        return []
    if table.no_header:
        return [f"{table.name}: its first line is read as {row}; if it is a header, add {option('header', True)}"]
    no_header = option("header", False)
    return [f"{table.name}: its first line is read as a header, but looks like {row}; if it is one, add {no_header}"]

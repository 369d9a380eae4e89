"""A graph from a table of edges and one of nodes, with a report of what was found in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.arguments import check_type
from clnr.support.deprecation import renamed_arguments
from clnr.support.humanize import one_line, plural
from clnr.tables import merge
from clnr.tables.column_info import ColumnInfo
from clnr.tables.columns import all_integers, find_column, flat_columns, load_nodes, read_columns, read_labels
from clnr.tables.csv_header import ROWS
from clnr.tables.edge_list import EdgeList, IngestReport, build_edge_list, check_weights, load_edges
from clnr.tables.edge_weighting import EdgeTimes, balance_kinds, fade_edges, keep_until
from clnr.tables.feature_encoder import FeatureEncoder
from clnr.tables.feature_matrix import FeatureMatrix, MatrixEncoder
from clnr.tables.infer import type_warnings
from clnr.tables.mistaken_edges import check_guessed_ends
from clnr.tables.node_names import guess_name
from clnr.tables.roles import Roles, describe_edges, describe_nodes, find_roles
from clnr.tables.source import Table, describe
from clnr.tables.sql import connect, fetch_numpy, run
from clnr.tables.structural import StructuralFeatures, degree_features
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_graph import TableGraph

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@renamed_arguments(onto="base", encoding="feature_encoder")
def read_tables(
    edges: Any = None,
    nodes: Any = None,
    *,
    edges_query: str | None = None,
    nodes_query: str | None = None,
    feature_matrix: Any = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    edge_type: str | None = None,
    edge_time: str | None = None,
    until: str | None = None,
    half_life: float | None = None,
    id: str | None = None,  # noqa: A002
    label: str | None = None,
    time: str | None = None,
    names: str | None = None,
    features: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    types: Mapping[str, str] = MappingProxyType({}),
    header: bool | None = None,
    edges_header: bool | None = None,
    nodes_header: bool | None = None,
    directed: bool | None = None,
    feature_encoder: FeatureEncoder | None = None,
    base: TableGraph | None = None,
    allow_missing_columns: bool = False,
    allow_disjoint: bool = False,
    memory: str | None = None,
    name: str | None = None,
) -> TableGraph:
    """A graph from a table of edges and one of nodes, or an earlier graph extended by such tables.

    >>> import pyarrow
    >>> from clnr import read_tables
    >>> edges = pyarrow.table({"source": ["ann", "bob"], "target": ["bob", "cy"]})
    >>> nodes = pyarrow.table({"id": ["ann", "bob", "cy"], "age": [30, 40, 50], "vip": [True, False, False]})
    >>> read = read_tables(edges, nodes)
    >>> read.graph
    Graph(graph: 3 nodes, 4 edges, 2 dense features)
    >>> read.graph.ids.tolist()
    ['ann', 'bob', 'cy']

    Args:
        edges: A CSV, Parquet or JSON file, a glob of them, or a data frame; None if ``edges_query`` is given, or if only nodes
            are added to ``base``.
        nodes: Likewise, one row per node; without it, features come from the structure of the graph.
        edges_query: Instead of ``edges``, one SELECT of DuckDB's SQL. It can only read, and only files of this machine:
            ``SELECT a AS source, b AS target FROM 'trades.parquet' WHERE ...``.
        nodes_query: Instead of ``nodes``, likewise.
        feature_matrix: Features beside those of the node table: an array of NumPy or SciPy, or a file, ``.npy``, ``.npz`` of
            SciPy or ``.mtx`` (Matrix Market). Row i is that of row i of the node table; without one, that of node i.
        source: The column of sources; if not given, one with a common name, else the first.
        target: The column of targets; if not given, one with a common name, else the second.
        weight: The column of weights; if not given, one that is called so, else there are none.
        edge_type: The column with the kinds of edges. Weights of each kind are multiplied by one number, so that all kinds have
            the same total weight; these numbers are kept for new tables.
        edge_time: The column with the times of edges, dates or numbers; never a weight.
        until: The graph as of this day (or month, year, number): later edges are left out.
        half_life: After so many days (or units of a number) an edge weighs half, as of ``until`` or of the last edge.
        id: The column of node ids; if not given, one with a common name, else the first.
        label: The column of labels, if there is one; never a feature.
        time: A column of times, never a feature.
        names: The column of node names, for reports; whether it is a feature does not depend on it. If not given, the first
            one whose own name ends in ``name`` or ``title``, with short and mostly distinct text. The id column means none.
        features: The columns of the node table that are features; if not given, all that can be.
        ignore: Columns of either table that are not used.
        types: What columns hold, by their names: ``text``, ``category``, ``number``, ``date``, ``bool``, ``tags``, or ``id``
            for one that is no feature. The others are inferred.
        header: Whether the first line of a text file has the names of columns, where they are not common ones; if not given,
            the lines below it tell, and where they do not, it is an error.
        edges_header: ``header`` of the edges alone.
        nodes_header: ``header`` of the nodes alone.
        directed: Whether edges are directed; if not given, as in ``base``, else no.
        feature_encoder: An earlier encoder, to encode features alike; if not given, a new one is fitted.
        base: An earlier result to extend: its nodes come first, in their order, and its feature encoder is used. New rows
            replace those of the same nodes, and new weights those of the same edges.
        allow_missing_columns: Whether an earlier encoder takes a node table that has none of its columns.
        allow_disjoint: Whether ``base`` is extended by edges none of which leads to its nodes.
        memory: A limit on DuckDB's memory while reading, such as ``4 GB``. Features, edges and node columns come on top of it,
            and about half a gigabyte for rows that are being encoded.
        name: What to call the graph.
    """
    check_type("memory", memory, str | None, "text", DataError)
    arguments = TableArguments(
        edges,
        nodes,
        edges_query=edges_query,
        nodes_query=nodes_query,
        feature_matrix=feature_matrix,
        source=source,
        target=target,
        weight=weight,
        edge_type=edge_type,
        edge_time=edge_time,
        until=until,
        half_life=half_life,
        id=id,
        label=label,
        time=time,
        names=names,
        features=features,
        ignore=ignore,
        types=types,
        header=header,
        edges_header=edges_header,
        nodes_header=nodes_header,
        directed=directed,
        feature_encoder=feature_encoder,
        base=base,
        allow_missing_columns=allow_missing_columns,
        allow_disjoint=allow_disjoint,
        name=name,
    )
    db = connect(memory)
    try:
        return _read(db, arguments)
    finally:
        db.close()


class Loaded(NamedTuple):
    """Tables that are in DuckDB: ``edges`` by ``load_edges``, and ``node_table`` and ``row_ids`` by ``load_nodes``.

    Attributes:
        edge_table: Where edges came from; None if there are none.
        node_table: The stored table of nodes; None if there is none.
        matrix: The matrix of features, if there is one.
        roles: Which column holds what.
        names: The column of node names that the user chose, if any.
        as_integers: Whether ids are integers; else they are text.
        edge_types: What the weights of each kind of edges were multiplied by.
        remarks: Notes for the user, a line each.
    """

    edge_table: Table | None
    node_table: Table | None
    matrix: FeatureMatrix | None
    roles: Roles
    names: str | None
    as_integers: bool
    edge_types: dict[str, float]
    remarks: list[str]

    def describe(self, db: DuckDBPyConnection, names: str | None, encoder: FeatureEncoder) -> tuple[ColumnInfo, ...]:
        """How each column was read, given the column of names and the feature encoder."""
        infos = [] if self.edge_table is None else describe_edges(db, self.edge_table, self.roles, self.as_integers)
        if self.node_table is not None:
            infos += describe_nodes(db, self.node_table, self.roles, self.as_integers, names, encoder)
        if self.matrix is not None and encoder.matrix is not None:
            kind = "sparse matrix" if encoder.matrix.sparse else "dense matrix"
            infos.append(ColumnInfo("matrix", self.matrix.name, "feature", kind, encoder.matrix.summary, encoder.matrix.width))
        return tuple(infos)


def load_tables(
    db: DuckDBPyConnection, edge_table: Table | None, node_table: Table | None, arguments: TableArguments
) -> Loaded:
    """Load the tables of edges and nodes into DuckDB, their columns found."""
    opened = {role: table for role, table in (("edges", edge_table), ("nodes", node_table)) if table is not None}
    remarks = [line for role, table in opened.items() for line in _about_header(table, role, arguments, len(opened) > 1)]
    roles = find_roles(edge_table, node_table, arguments)
    name_column = _name_column(node_table, roles.id, arguments)
    matrix = None if arguments.feature_matrix is None else FeatureMatrix.open(arguments.feature_matrix)
    if matrix is not None and node_table is None:
        if arguments.base is not None:
            raise DataError(f"{matrix.name}: its rows are those of a node table, and there is none; give one (--nodes)")
        node_table, roles = _numbered_nodes(db, matrix.shape[0]), roles._replace(id=_NUMBER)
    edge_types: dict[str, float] = {}
    earlier = None if arguments.base is None else arguments.base.graph.node_ids
    as_integers = (
        (earlier is None or earlier.dtype.kind in "iu")
        and (edge_table is None or all_integers(db, edge_table, roles.source, roles.target))
        and (node_table is None or all_integers(db, node_table, roles.id))
    )
    if edge_table is not None:
        times = None if roles.edge_time is None else EdgeTimes.of(db, edge_table, roles.edge_time)
        load_edges(db, edge_table, roles, as_integers, times)
        if roles.guessed and node_table is None:
            remarks += check_guessed_ends(db, edge_table, roles)
        if roles.weight is not None and arguments.base is None:
            check_weights(db, edge_table, roles.weight)
        edge_types = _weigh(db, edge_table, roles, times, arguments, remarks)
    if node_table is not None:
        node_table = load_nodes(db, node_table, roles.id, as_integers)
    loaded = Loaded(edge_table, node_table, matrix, roles, name_column, as_integers, edge_types, remarks)
    if matrix is not None:
        _check_matrix(db, matrix, loaded)
    return loaded


def _weigh(
    db: DuckDBPyConnection,
    edge_table: Table,
    roles: Roles,
    times: EdgeTimes | None,
    arguments: TableArguments,
    remarks: list[str],
) -> dict[str, float]:
    """Leave out edges after ``until``, let the others fade, and balance kinds of edges; what kinds were multiplied by."""
    if times is not None and arguments.until is not None:
        remarks += keep_until(db, edge_table, times, arguments.until)
    if times is not None and arguments.half_life is not None:
        fade_edges(db, edge_table, times, arguments.half_life, arguments.until)
        day = arguments.until or "the last edge"
        unit = "days" if times.as_dates else f"units of '{times.column}'"
        remarks.append(f"{edge_table.name}: an edge weighs half after {arguments.half_life:g} {unit}, as of {day}")
    if roles.edge_type is None:
        return {}
    return balance_kinds(db, edge_table, {} if arguments.base is None else arguments.base.ingest_report.edge_types)


_NUMBER = "row of the matrix"


def _numbered_nodes(db: DuckDBPyConnection, count: int) -> Table:
    """The nodes 0, 1, 2 ... of a feature matrix without a node table."""
    import pyarrow as pa

    db.register("numbered_nodes", pa.table({_NUMBER: np.arange(count)}))
    return describe(db, "the feature matrix", "numbered_nodes")


def _check_matrix(db: DuckDBPyConnection, matrix: FeatureMatrix, loaded: Loaded) -> None:
    """Raise unless the rows of a feature matrix are those of nodes."""
    assert loaded.node_table is not None
    rows = matrix.shape[0]
    ((count,),) = run(db, "SELECT count(*) FROM row_ids", loaded.node_table.name)
    if count != rows:
        sizes = f"it has {rows:,} rows, and {loaded.node_table.name} has {count:,}"
        raise DataError(f"{matrix.name}: {sizes}; row i of the one must be that of row i of the other")
    if loaded.roles.id == _NUMBER and loaded.edge_table is not None:
        for column in "st":
            for (end,) in run(db, f"SELECT {column} FROM edges ANTI JOIN row_ids ON {column} = id LIMIT 1", "edges"):
                raise DataError(
                    f"{matrix.name}: without a node table its rows are the nodes 0 to {rows - 1:,}, and an edge has node "
                    f"'{one_line(str(end), 80)}'; give a node table (--nodes) whose rows are in the order of the matrix"
                )


def _read(db: DuckDBPyConnection, arguments: TableArguments) -> TableGraph:
    loaded = load_tables(db, *arguments.open_tables(db), arguments)
    edge_table, node_table, remarks, base = loaded.edge_table, loaded.node_table, loaded.remarks, arguments.base
    directed = arguments.is_directed
    ids, index = _ids(db, None if base is None else base.graph.node_ids, loaded.as_integers, node_table is None)
    edge_list, ingest_report = EdgeList.none(), IngestReport()
    if edge_table is not None:
        edge_list, ingest_report = build_edge_list(db, edge_table, loaded.roles.weighted, directed)
    if base is not None:
        if edge_table is not None and not arguments.allow_disjoint:
            merge.check_linked(base.graph, edge_list, index, edge_table.name)
        edge_list, more = merge.merge_edges(base.graph, edge_list, directed)
        remarks += more
    made, more = _nodes(db, loaded, ids, index, edge_list, arguments)
    graph = Graph.from_edges(
        *edge_list[:2],
        made.features,
        weight=edge_list.weight,
        undirected=not directed,
        labels=made.labels,
        ids=ids,
        split=None if base is None else base.graph.split,
        name=arguments.graph_name,
    )
    isolated = (np.diff(graph.incoming.indptr) == 0) & (np.diff(graph.outgoing.indptr) == 0)
    names = name_of(loaded, made.columns, arguments)
    ingest_report = replace(
        ingest_report,
        isolated=int(isolated.sum()),
        remarks=(*remarks, *ingest_report.remarks, *more),
        directed=directed,
        names=names,
        columns=(*loaded.describe(db, names, made.feature_encoder), *_of_others(loaded, base)),
        edge_types=loaded.edge_types if base is None else base.ingest_report.edge_types,
    )
    return TableGraph(graph, made.feature_encoder, made.classes, ingest_report, made.columns)


def _of_others(loaded: Loaded, base: TableGraph | None) -> list[ColumnInfo]:
    """The columns of a table that the graph that is extended had, and that was not given now."""
    given = {"edges": loaded.edge_table, "nodes": loaded.node_table, "matrix": loaded.matrix}
    return [] if base is None else [info for info in base.ingest_report.columns if given[info.table] is None]


def name_of(loaded: Loaded, columns: Any, arguments: TableArguments) -> str | None:
    """The column of node names: the one that the user chose, that of ``base``, or a guess by some rows of all columns."""
    if arguments.names is not None or arguments.base is not None or loaded.node_table is None:
        return loaded.names
    return guess_name(columns, (loaded.roles.id, loaded.roles.label, loaded.roles.time, *loaded.roles.ignored))


def _name_column(node_table: Table | None, key: str, arguments: TableArguments) -> str | None:
    """The column of names that the user chose, else that of ``base``; the id column means none."""
    if arguments.names is None:
        return None if arguments.base is None else arguments.base.ingest_report.names
    if node_table is None:
        raise DataError(f"column '{arguments.names}' for names must be in the node table, and there is none")
    column = find_column(replace(node_table, columns=flat_columns(node_table)), arguments.names, (), "names")
    return None if column == key else column


def _about_header(table: Table, role: str, arguments: TableArguments, beside: bool) -> list[str]:
    """A note where nobody said what the first line is, or where it was said of two tables and does not look so."""
    row, _ = ROWS[role]
    unsaid = table.no_header and arguments.header_of(role) is None
    doubtful = table.looks_otherwise and beside and getattr(arguments, f"{role}_header") is None
    if not (unsaid or doubtful):
        return []
    if table.no_header:
        other = f"if it has the names of columns, say --{role}-header ({role}_header=True)"
        return [f"{table.name}: its first line is read as {row}; {other}"]
    other = f"but looks like {row}; if it is one, say --no-{role}-header ({role}_header=False)"
    return [f"{table.name}: its first line is read as names of columns, {other}"]


def number_nodes(db: DuckDBPyConnection, earlier: Array | None, as_integers: bool, by_edges: bool) -> None:
    """Make the SQL relation ``ids`` of all node ids and their indices; those of ``base`` come first.

    Without a node table, ``row_ids`` are made of the edges' sources and targets.
    """
    import pyarrow as pa

    new = ""
    if earlier is not None:
        old = pa.array(earlier, pa.int64()) if as_integers else pa.array([str(each) for each in earlier.tolist()], pa.string())
        db.register("base_ids", pa.table({"id": old, "i": pa.array(np.arange(len(earlier)))}))
        new = "ANTI JOIN base_ids USING (id)"
    if by_edges:
        both = "SELECT s AS id FROM edges UNION SELECT t FROM edges"
        numbered = f"SELECT id, row_number() OVER (ORDER BY id) - 1 AS i FROM ({both}) {new}"
        run(db, f"CREATE TEMP TABLE row_ids AS {numbered}", "edges")
    if earlier is None:
        run(db, "CREATE TEMP VIEW ids AS SELECT id, i FROM row_ids", "nodes")
    else:
        fresh = f"SELECT id, {len(earlier)} + row_number() OVER (ORDER BY row_ids.i) - 1 AS i FROM row_ids {new}"
        run(db, f"CREATE TEMP TABLE ids AS SELECT id, i FROM base_ids UNION ALL {fresh}", "nodes")


def _ids(db: DuckDBPyConnection, earlier: Array | None, as_integers: bool, by_edges: bool) -> tuple[Array, Array]:
    """All node ids, in order, and the node index of each row of ``row_ids``."""
    number_nodes(db, earlier, as_integers, by_edges)
    index = fetch_numpy(db, "SELECT ids.i AS i FROM row_ids JOIN ids USING (id) ORDER BY row_ids.i", "nodes")["i"]
    return fetch_numpy(db, "SELECT id FROM ids ORDER BY i", "nodes")["id"], index


class _Nodes(NamedTuple):
    """What is known of all nodes, one row each."""

    features: Any
    feature_encoder: FeatureEncoder
    labels: Array | None
    classes: tuple[str, ...]
    columns: Any


def _nodes(
    db: DuckDBPyConnection, loaded: Loaded, ids: Array, index: Array, edge_list: EdgeList, arguments: TableArguments
) -> tuple[_Nodes, list[str]]:
    base, node_table = arguments.base, loaded.node_table
    labels, columns, label = None, None, loaded.roles.label
    classes = () if base is None else base.class_names
    if node_table is not None:
        columns = read_columns(db, node_table)
        if label is not None:
            labels, classes = read_labels(db, node_table, label, classes)
    feature_encoder, remarks = encoder_for(db, loaded, arguments)
    features: Any
    if feature_encoder.encodes:
        if node_table is None:
            features = feature_encoder.unknown(len(index))
        else:
            features = feature_encoder.transform(db, node_table, loaded.matrix)
    else:
        there = slice(None) if edge_list.weight is None else edge_list.weight > 0
        seen = degree_features(edge_list.source[there], edge_list.target[there], len(ids))
        structure = feature_encoder.structure or StructuralFeatures.fit(seen)
        feature_encoder, features = replace(feature_encoder, structure=structure), structure.features(seen, ids)
    if base is not None:
        before = base.graph.num_nodes
        take = merge.replaced_rows(before, index, len(ids))
        labels = merge.merge_labels(base.graph.labels, labels, before, take)
        columns = merge.merge_columns(base.columns, columns, before, take)
        if feature_encoder.encodes:
            features = merge.merge_features(base.graph.features, features, take)
            if node_table is None and len(index):
                remarks.append(f"known from edges alone, with all values missing: {plural(len(index), 'new node')}")
    return _Nodes(features, feature_encoder, labels, classes, columns), remarks


def encoder_for(db: DuckDBPyConnection, loaded: Loaded, arguments: TableArguments) -> tuple[FeatureEncoder, list[str]]:
    """The feature encoder, and notes; one that encodes nothing means that features come from structure."""
    node_table, matrix, base = loaded.node_table, loaded.matrix, arguments.base
    given = arguments.feature_encoder if base is None else base.feature_encoder
    if given is not None:
        return given, _check_encoder(given, loaded, arguments)
    if node_table is None:
        return FeatureEncoder(), []
    made = FeatureEncoder.fit(db, node_table, loaded.roles.features, loaded.roles.types)
    if matrix is not None:
        made = replace(made, matrix=MatrixEncoder.fit(matrix))
    if made.encodes:
        inferred = [encoder for encoder in made.column_encoders if encoder.column not in loaded.roles.types]
        return made, type_warnings(db, node_table, inferred)
    why = "; ".join(f"{column}: {reason}" for column, reason in made.dropped.items())
    why = why or "there are none besides ids, labels and times"
    return made, [
        f"{node_table.name}: none of its columns can be a feature, so features come from the structure of the graph: {why}"
    ]


def _check_encoder(given: FeatureEncoder, loaded: Loaded, arguments: TableArguments) -> list[str]:
    """Raise unless an earlier encoder can encode these tables; notes about what they lack."""
    node_table, matrix, base = loaded.node_table, loaded.matrix, arguments.base
    if base is not None and given.encodes and given.width != base.graph.num_features:
        width = base.graph.num_features
        raise DataError(f"the earlier graph has {width:,} features a node, but its feature encoder makes {given.width:,}")
    if node_table is None and base is None and given.encodes:
        raise DataError("the feature_encoder encodes a node table, and there is none; give one, or leave out feature_encoder")
    if matrix is not None:
        if given.matrix is None:
            raise DataError(f"{matrix.name}: the model was fitted without a feature matrix; leave it out")
        given.matrix.check(matrix)
    if node_table is None:
        return []
    lacks = [f"'{encoder.column}'" for encoder in given.column_encoders if encoder.column not in node_table.columns]
    if 0 < len(lacks) == len(given.column_encoders) and loaded.roles.features and not arguments.allow_missing_columns:
        raise DataError(
            f"{node_table.name}: it has none of the columns that the model takes, such as {', '.join(lacks[:5])}, so it "
            "seems to be of another data set; --allow-missing-columns (allow_missing_columns=True) embeds it all the same"
        )
    remarks = [f"{node_table.name}: it lacks {', '.join(lacks)}; all values are missing"] if lacks else []
    if given.matrix is not None and matrix is None:
        remarks.append(f"{node_table.name}: the feature matrix of these nodes (--feature-matrix) is missing; it counts as 0")
    return remarks

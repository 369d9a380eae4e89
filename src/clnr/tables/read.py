"""A graph from a table of edges and one of nodes, with a report of what was found in them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.deprecation import renamed_arguments
from clnr.support.humanize import plural
from clnr.tables import merge
from clnr.tables.argument_checks import check_arguments, node_kinds
from clnr.tables.columns.column_info import ColumnInfo
from clnr.tables.columns.columns import read_columns, read_labels
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.fit_encoder import encoder_for
from clnr.tables.columns.structural import StructuralFeatures, degree_features
from clnr.tables.edges.edge_list import EdgeList, IngestReport, build_edge_list
from clnr.tables.io.sql import connect, fetch_numpy, run
from clnr.tables.load import Loaded, load_tables, name_of
from clnr.tables.open_tables import open_tables
from clnr.tables.reading_memory import ReadingMemory
from clnr.tables.table_arguments import TableArguments, takes
from clnr.tables.table_graph import TableGraph

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@renamed_arguments(onto="base", encoding="feature_encoder")
@takes(TableArguments)
def read_tables(edges: Any = None, nodes: Any = None, **named: Any) -> TableGraph:
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
            are added to ``base``. Several kinds of edges are a dictionary of such tables by their names; between several kinds
            of nodes, by source, relation and target, as PyG has them: ``{("user", "bought", "item"): "purchases.csv"}``.
        nodes: Likewise, one row per node; without it, features come from the structure of the graph. Several kinds of nodes are
            a dictionary of tables by their names: ``{"user": "users.csv", "item": "items.csv"}``. The node 7 of the kind
            ``user`` has the id ``user:7``, and ``columns`` its ``node_kind`` and ``original_id``. Columns are named as in their
            table, or as ``user.age`` where two tables have one of this name.
        edges_query: Instead of ``edges``, one SELECT of DuckDB's SQL. It can only read, and only files of this machine:
            ``SELECT a AS source, b AS target FROM 'trades.parquet' WHERE ...``.
        nodes_query: Instead of ``nodes``, likewise.
        feature_matrix: Features beside those of the node table: an array of NumPy or SciPy, or a file, ``.npy``, ``.npz`` of
            SciPy or ``.mtx`` (Matrix Market). Row i is that of row i of the node table; without one, that of node i.
        source: The column of sources; if not given, one with a common name, else the first.
        target: The column of targets; if not given, one with a common name, else the second.
        weight: The column of weights; if not given, one that is called so, else there are none. Several tables of edges may
            have several: each holds for those that have it.
        negative_weights: What to do with negative weights: ``refuse`` them, ``drop`` their edges, or make these a ``kind`` of
            edges of their own, with weights above 0. If not given, as in ``base``, else they are refused.
        edge_type: The column with the kinds of edges. Weights of each kind are normalised by the degrees of nodes in this kind
            alone. What those of a kind were multiplied by on average is kept for new tables.
        edge_time: The column with the times of edges, dates or numbers; never a weight. Or a list, as ``weight``.
        until: The graph as of this day (or month, year, number): later edges are left out.
        half_life: After so many days (or units of a number) an edge weighs half, as of ``until`` or of the last edge.
        drop_empty: Whether rows are left out that lack an end, a kind, a weight or a time of an edge, or the id of a node; else
            they are refused. Rows are then counted without them.
        id: The column of node ids; if not given, one with a common name, else the first.
        label: The column of labels, if there is one; never a feature.
        names: The column of node names, for reports; whether it is a feature does not depend on it. If not given, the first
            one whose own name ends in ``name`` or ``title``, with short and mostly distinct text. The id column means none.
        time: A column of times, never a feature.
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
        memory: A limit on DuckDB's memory while reading, such as ``4 GB``; if not given, a third of what is unused, also in a
            container. Features, edges and node columns come on top of it. If they will not fit, that is an error.
        name: What to call the graph.
        progress: Called with a line now and then while many columns are read.
    """
    arguments = check_arguments("read_tables", edges, nodes, named)
    memory = arguments.memory
    limits = ReadingMemory.of(memory)
    db = connect(memory if memory is not None or limits.duckdb is None else f"{limits.duckdb} B")
    try:
        return _read(db, arguments, limits)
    finally:
        db.close()


def _read(db: DuckDBPyConnection, arguments: TableArguments, limits: ReadingMemory) -> TableGraph:
    loaded = load_tables(db, open_tables(db, arguments), arguments)
    limits.check(db, loaded)
    node_table, remarks, base = loaded.node_table, loaded.remarks, arguments.base
    directed = arguments.is_directed
    ids, index = _ids(db, None if base is None else base.graph.node_ids, loaded.as_integers, node_table is None)
    edge_list, ingest_report = EdgeList.none(), IngestReport()
    if loaded.edges:
        edge_list, ingest_report = build_edge_list(db, loaded.edges_title, loaded.merging)
    if base is not None:
        if loaded.edges and not arguments.allow_disjoint:
            merge.check_linked(base.graph, edge_list, index, loaded.edges_title)
        edge_list, more = merge.merge_edges(base.graph, edge_list, directed)
        remarks += more
    feature_encoder, more = encoder_for(db, loaded, arguments)
    made = _nodes(db, loaded, ids, index, edge_list, feature_encoder, base)
    if base is not None and feature_encoder.encodes and loaded.from_edges and len(index):
        more.append(f"known from edges alone, with all values missing: {plural(len(index), 'new node')}")
    names = name_of(loaded, made.columns, arguments)
    columns = _with_others(loaded.describe(db, names, made.feature_encoder), base)
    # The graph takes its place in memory.
    db.close()
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
    ingest_report = replace(
        ingest_report,
        isolated=int(isolated.sum()),
        remarks=(*remarks, *ingest_report.remarks, *more),
        directed=directed,
        names=names,
        columns=columns,
        edge_types=ingest_report.edge_types if base is None else base.ingest_report.edge_types,
        fading=loaded.fading,
        negative_weights=arguments.with_negative_weights,
        node_kinds=node_kinds(arguments) if base is None else base.ingest_report.node_kinds,
    )
    return TableGraph(graph, made.feature_encoder, made.classes, ingest_report, made.columns)


def _with_others(columns: tuple[ColumnInfo, ...], base: TableGraph | None) -> tuple[ColumnInfo, ...]:
    """These columns, and those of tables that the graph that is extended had, and that were not given now."""
    given = {info.table for info in columns}
    return (*columns, *(() if base is None else (info for info in base.ingest_report.columns if info.table not in given)))


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
    db: DuckDBPyConnection,
    loaded: Loaded,
    ids: Array,
    index: Array,
    edge_list: EdgeList,
    feature_encoder: FeatureEncoder,
    base: TableGraph | None,
) -> _Nodes:
    node_table = loaded.node_table
    labels, columns, label = None, None, loaded.roles.label
    classes = () if base is None else base.class_names
    if node_table is not None:
        columns = read_columns(db, node_table)
        if label is not None:
            labels, classes = read_labels(db, node_table, label, classes)
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
    return _Nodes(features, feature_encoder, labels, classes, columns)

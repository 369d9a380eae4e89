"""A graph from a table of edges and one of nodes, with a report of what was found in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.arguments import check_type
from clnr.support.deprecation import renamed_arguments
from clnr.support.humanize import plural
from clnr.tables import merge
from clnr.tables.columns import (
    IDS,
    LABELS,
    SOURCES,
    TARGETS,
    all_integers,
    find_column,
    flat_columns,
    load_nodes,
    read_columns,
    read_labels,
)
from clnr.tables.edge_list import EdgeList, IngestReport, build_edge_list, edge_columns, load_edges
from clnr.tables.feature_encoder import FeatureEncoder
from clnr.tables.infer import type_warnings
from clnr.tables.node_names import guess_name
from clnr.tables.query import query_table
from clnr.tables.source import Table, open_table
from clnr.tables.sql import connect, fetch_numpy, run
from clnr.tables.structural import StructuralFeatures, degree_features
from clnr.tables.table_graph import TableGraph

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


# Opens a table on a connection; a text file's first line is a header if it has one of these names.
OpenTable = Callable[["DuckDBPyConnection", Sequence[str]], Table]


class Options(NamedTuple):
    """The arguments of ``read_tables`` that describe the graph."""

    source: str | None
    target: str | None
    weight: str | None
    id: str | None
    label: str | None
    time: str | None
    names: str | None
    directed: bool
    feature_encoder: FeatureEncoder | None
    base: TableGraph | None
    name: str


@renamed_arguments(onto="base", encoding="feature_encoder")
def read_tables(
    edges: Any = None,
    nodes: Any = None,
    *,
    edges_query: str | None = None,
    nodes_query: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,  # noqa: A002
    label: str | None = None,
    time: str | None = None,
    names: str | None = None,
    directed: bool | None = None,
    feature_encoder: FeatureEncoder | None = None,
    base: TableGraph | None = None,
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
        source: The column of sources; if not given, one with a common name, else the first.
        target: The column of targets; if not given, one with a common name, else the second.
        weight: The column of weights; if not given, one with a common name, else there are none.
        id: The column of node ids; if not given, one with a common name, else the first.
        label: The column of labels, if there is one; never a feature.
        time: A column of times, never a feature.
        names: The column of node names, for reports; whether it is a feature does not depend on it. If not given, the first
            one whose own name ends in ``name`` or ``title``, with short and mostly distinct text. The id column means none.
        directed: Whether edges are directed; if not given, as in ``base``, else no.
        feature_encoder: An earlier encoder, to encode features alike; if not given, a new one is fitted.
        base: An earlier result to extend: its nodes come first, in their order, and its feature encoder is used. New rows
            replace those of the same nodes, and new weights those of the same edges.
        memory: A limit on DuckDB's memory while reading, such as ``4 GB``. Features, edges and node columns come on top of it,
            and about half a gigabyte for rows that are being encoded.
        name: What to call the graph.
    """
    check_type("memory", memory, str | None, "text", DataError)
    opened, options = check_arguments(
        edges,
        nodes,
        edges_query=edges_query,
        nodes_query=nodes_query,
        source=source,
        target=target,
        weight=weight,
        id=id,
        label=label,
        time=time,
        names=names,
        directed=directed,
        feature_encoder=feature_encoder,
        base=base,
        name=name,
    )
    db = connect(memory)
    try:
        return _read(db, *opened, options)
    finally:
        db.close()


def check_arguments(
    edges: Any = None,
    nodes: Any = None,
    *,
    edges_query: str | None = None,
    nodes_query: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,  # noqa: A002
    label: str | None = None,
    time: str | None = None,
    names: str | None = None,
    directed: bool | None = None,
    feature_encoder: FeatureEncoder | None = None,
    base: TableGraph | None = None,
    name: str | None = None,
) -> tuple[tuple[OpenTable | None, OpenTable | None], Options]:
    """How to open the tables of edges and of nodes, and the options, given the arguments of ``read_tables``."""
    texts = {"source": source, "target": target, "weight": weight, "id": id, "label": label, "time": time}
    texts |= {"edges_query": edges_query, "nodes_query": nodes_query, "name": name, "names": names}
    for argument, value in texts.items():
        check_type(argument, value, str | None, "text", DataError)
    check_type("directed", directed, bool | None, "True or False", DataError)
    check_type("feature_encoder", feature_encoder, FeatureEncoder | None, "a FeatureEncoder", DataError)
    check_type("base", base, TableGraph | None, "a result of read_tables", DataError)
    tables = _opener(edges, edges_query, "edges"), _opener(nodes, nodes_query, "nodes")
    if tables[0] is None and (base is None or tables[1] is None):
        raise DataError("there is nothing to read: give a table of edges, or one of nodes that extend an earlier graph (base)")
    if base is not None and feature_encoder is not None:
        raise DataError("an earlier graph is extended by its own feature encoder; leave out either feature_encoder or base")
    if base is not None and base.feature_encoder is None:
        raise DataError("the earlier graph did not come from tables, so it has no feature encoder for the nodes of a table")
    was = base is not None and (base.ingest_report.directed or base.graph.directed)
    if base is not None and directed is not None and directed != was:
        kind = "directed" if was else "undirected"
        raise DataError(f"the earlier graph is {kind}, so directed={directed} cannot extend it")
    return tables, Options(
        *(source, target, weight),
        *(id, label, time, names),
        was if directed is None else directed,
        feature_encoder,
        base,
        name or ("graph" if base is None else base.graph.name),
    )


def _opener(source: Any, query: str | None, role: str) -> OpenTable | None:
    """How to open a table: a file or a data frame, or a query; None if neither is given."""
    if source is not None and query is not None:
        raise DataError(f"{role} and {role}_query are one table; leave out one of them")
    if query is not None:
        return lambda db, names: query_table(db, query, role)
    return None if source is None else lambda db, names: open_table(db, source, role, names)


class Loaded(NamedTuple):
    """Tables that are in DuckDB: ``edges`` by ``load_edges``, and ``node_table`` and ``row_ids`` by ``load_nodes``.

    Attributes:
        edge_table: Where edges came from; None if there are none.
        node_table: The stored table of nodes; None if there is none.
        weight: The column of weights, if any.
        key: The column of node ids; empty without a node table.
        names: The column of node names that the user chose, if any.
        as_integers: Whether ids are integers; else they are text.
        remarks: Notes for the user, a line each.
    """

    edge_table: Table | None
    node_table: Table | None
    weight: str | None
    key: str
    names: str | None
    as_integers: bool
    remarks: list[str]

    def label(self, options: Options) -> str | None:
        """The column of labels, if there is one."""
        if self.node_table is None:
            return None
        return find_column(self.node_table, options.label, LABELS, "label", (self.key, options.time))


def open_tables(
    db: DuckDBPyConnection, edges: OpenTable | None, nodes: OpenTable | None, options: Options
) -> tuple[Table | None, Table | None]:
    """The tables of edges and nodes, of which nothing is read yet."""
    edge_table = None if edges is None else edges(db, _header_names(SOURCES, TARGETS, options[:3]))
    return edge_table, None if nodes is None else nodes(db, _header_names(IDS, LABELS, options[3:7]))


def load_tables(db: DuckDBPyConnection, edge_table: Table | None, node_table: Table | None, options: Options) -> Loaded:
    """Load the tables of edges and nodes into DuckDB, their columns found."""
    read = ((edge_table, "an edge"), (node_table, "a node"))
    remarks = [_no_header(table, role) for table, role in read if table and table.no_header]
    a, b, w = ("", "", None) if edge_table is None else edge_columns(edge_table, options.source, options.target, options.weight)
    key = ""
    if node_table is not None:
        others = (options.label, options.time)
        key = find_column(node_table, options.id, IDS, "id", others) or next(iter(node_table.columns))
    name_column = _name_column(node_table, key, options)
    earlier = None if options.base is None else options.base.graph.node_ids
    as_integers = (
        (earlier is None or earlier.dtype.kind in "iu")
        and (edge_table is None or all_integers(db, edge_table, a, b))
        and (node_table is None or all_integers(db, node_table, key))
    )
    if edge_table is not None:
        load_edges(db, edge_table, a, b, w, as_integers)
    if node_table is not None:
        node_table = load_nodes(db, node_table, key, as_integers)
    return Loaded(edge_table, node_table, w, key, name_column, as_integers, remarks)


def _read(db: DuckDBPyConnection, edges: OpenTable | None, nodes: OpenTable | None, options: Options) -> TableGraph:
    loaded = load_tables(db, *open_tables(db, edges, nodes, options), options)
    edge_table, node_table, remarks = loaded.edge_table, loaded.node_table, loaded.remarks
    ids, index = _ids(db, None if options.base is None else options.base.graph.node_ids, loaded.as_integers, node_table is None)
    edge_list, ingest_report = EdgeList.none(), IngestReport()
    if edge_table is not None:
        edge_list, ingest_report = build_edge_list(db, edge_table, loaded.weight, options.directed)
    if options.base is not None:
        edge_list, more = merge.merge_edges(options.base.graph, edge_list, options.directed)
        remarks += more
    made, more = _nodes(db, loaded, ids, index, edge_list, options)
    graph = Graph.from_edges(
        *edge_list[:2],
        made.features,
        weight=edge_list.weight,
        undirected=not options.directed,
        labels=made.labels,
        ids=ids,
        split=None if options.base is None else options.base.graph.split,
        name=options.name,
    )
    isolated = (np.diff(graph.incoming.indptr) == 0) & (np.diff(graph.outgoing.indptr) == 0)
    ingest_report = replace(
        ingest_report,
        isolated=int(isolated.sum()),
        remarks=(*remarks, *ingest_report.remarks, *more),
        directed=options.directed,
        names=name_of(loaded, made.columns, options),
    )
    return TableGraph(graph, made.feature_encoder, made.classes, ingest_report, made.columns)


def name_of(loaded: Loaded, columns: Any, options: Options) -> str | None:
    """The column of node names: the one that the user chose, that of ``base``, or a guess by some rows of all columns."""
    if options.names is not None or options.base is not None or loaded.node_table is None:
        return loaded.names
    label = find_column(loaded.node_table, options.label, LABELS, "label")
    return guess_name(columns, (loaded.key, label, options.time))


def _name_column(node_table: Table | None, key: str, options: Options) -> str | None:
    """The column of names that the user chose, else that of ``base``; the id column means none."""
    if options.names is None:
        return None if options.base is None else options.base.ingest_report.names
    if node_table is None:
        raise DataError(f"column '{options.names}' for names must be in the node table, and there is none")
    column = find_column(replace(node_table, columns=flat_columns(node_table)), options.names, (), "names")
    return None if column == key else column


def _header_names(*names: Sequence[Any]) -> list[str]:
    """The names by which a header is recognized: the usual ones, and those that the user gave."""
    return [name for some in names for name in some if name]


def _no_header(table: Table, role: str) -> str:
    return f"{table.name}: its first line has no known column names and is read as {role}; name the columns if it is a header"


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
    db: DuckDBPyConnection, loaded: Loaded, ids: Array, index: Array, edge_list: EdgeList, options: Options
) -> tuple[_Nodes, list[str]]:
    base, node_table = options.base, loaded.node_table
    labels, columns, label = None, None, loaded.label(options)
    classes = () if base is None else base.class_names
    if node_table is not None:
        columns = read_columns(db, node_table)
        if label is not None:
            labels, classes = read_labels(db, node_table, label, classes)
    feature_encoder, remarks = encoder_for(db, loaded, options)
    features: Any
    if feature_encoder.column_encoders:
        features = feature_encoder.unknown(len(index)) if node_table is None else feature_encoder.transform(db, node_table)
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
        if feature_encoder.column_encoders:
            features = merge.merge_features(base.graph.features, features, take)
            if node_table is None and len(index):
                remarks.append(f"known from edges alone, with all values missing: {plural(len(index), 'new node')}")
    return _Nodes(features, feature_encoder, labels, classes, columns), remarks


def encoder_for(db: DuckDBPyConnection, loaded: Loaded, options: Options) -> tuple[FeatureEncoder, list[str]]:
    """The feature encoder, and notes; one without column encoders means that features come from structure."""
    node_table = loaded.node_table
    given = options.feature_encoder if options.base is None else options.base.feature_encoder
    if given is not None:
        if options.base is not None and given.column_encoders and given.width != options.base.graph.num_features:
            width = options.base.graph.num_features
            raise DataError(f"the earlier graph has {width:,} features a node, but its feature encoder makes {given.width:,}")
        if node_table is None and options.base is None and given.column_encoders:
            raise DataError(
                "the feature_encoder encodes a node table, and there is none; give one, or leave out feature_encoder"
            )
        if node_table is None:
            return given, []
        lacks = [f"'{encoder.column}'" for encoder in given.column_encoders if encoder.column not in node_table.columns]
        return given, [f"{node_table.name}: it lacks {', '.join(lacks)}; all values are missing"] if lacks else []
    if node_table is None:
        return FeatureEncoder(), []
    unused = (loaded.key, loaded.label(options), find_column(node_table, options.time, (), "time"))
    made = FeatureEncoder.fit(db, node_table, [column for column in node_table.columns if column not in unused])
    if made.column_encoders:
        return made, type_warnings(db, node_table, made.column_encoders)
    why = "; ".join(f"{column}: {reason}" for column, reason in made.dropped.items())
    why = why or "there are none besides ids, labels and times"
    return made, [
        f"{node_table.name}: none of its columns can be a feature, so features come from the structure of the graph: {why}"
    ]

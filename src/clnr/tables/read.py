"""A graph from a table of edges and one of nodes, with a report of what was found in them."""

from __future__ import annotations

from typing import Any

from clnr.support.deprecation import renamed_arguments
from clnr.support.humanize import parse_bytes
from clnr.support.machine import memory
from clnr.tables.argument_checks import check_arguments
from clnr.tables.io.sql import connect
from clnr.tables.memory_sink import MemorySink
from clnr.tables.table_arguments import TableArguments, takes
from clnr.tables.table_driver import build_graph
from clnr.tables.table_graph import TableGraph

# DuckDB takes one of these parts of what is unused, if nothing is said; the graph needs about two. Below the least, it fails.
_DUCKDB_PARTS = 3
_LEAST_DUCKDB_BYTES = 100_000_000


@renamed_arguments(onto="base", memory="duckdb_memory")
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
        encoding: The encoding of CSV and JSON files, as Python calls it: ``cp1252``, ``utf-16``. If not given, a mark at the
            beginning of a file says it; else it is UTF-8 or, where letters look like that, Windows-1252.
        directed: Whether edges are directed; if not given, as in ``base``, else no.
        feature_encoder: An earlier encoder, to encode features alike; if not given, a new one is fitted.
        base: An earlier result to extend: its nodes come first, in their order, and its feature encoder is used. New rows
            replace those of the same nodes, and new weights those of the same edges.
        allow_missing_columns: Whether an earlier encoder takes a node table that has none of its columns.
        allow_disjoint: Whether ``base`` is extended by edges none of which leads to its nodes.
        duckdb_memory: A limit on DuckDB's memory while reading, such as ``4 GB``; if not given, a third of what is unused,
            also in a container. Features, edges and node columns come on top of it. If they will not fit, that is an error.
        name: What to call the graph.
        progress: Called with a line now and then while many columns are read.
    """
    if not isinstance(named.get("encoding"), str | None):
        named = _with_feature_encoder(**named)
    arguments = check_arguments("read_tables", edges, nodes, **named)
    unused, duckdb_bytes = memory.unused_memory(), None
    if (limit := arguments.duckdb_memory) is not None:
        duckdb_bytes = parse_bytes(limit)
    elif unused is not None:
        duckdb_bytes = max(_LEAST_DUCKDB_BYTES, unused // _DUCKDB_PARTS)
        limit = f"{duckdb_bytes} B"
    db = connect(limit)
    try:
        sink = MemorySink(db, arguments, unused, duckdb_bytes)
        info = build_graph(db, arguments, sink)
        return TableGraph(sink.graph, *info, sink.columns)
    finally:
        db.close()


@renamed_arguments(encoding="feature_encoder")
def _with_feature_encoder(**named: Any) -> dict[str, Any]:
    """The arguments of earlier versions, in which the encoding was that of features."""
    return named

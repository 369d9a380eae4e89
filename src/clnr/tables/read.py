"""A graph from a table of edges and one of nodes, with a report of what was found in them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

from clnr.support.humanize import parse_bytes
from clnr.support.machine.memory import unused_memory
from clnr.tables.argument_checks import check_arguments
from clnr.tables.io.sql import connect
from clnr.tables.memory_sink import MemorySink
from clnr.tables.table_arguments import TableArguments, takes
from clnr.tables.table_driver import build_graph
from clnr.tables.table_graph import TableGraph

# DuckDB takes one of these parts of what is unused, if nothing is said; the graph needs about two. Below the least, it fails.
_DUCKDB_PARTS = 3
_LEAST_DUCKDB_BYTES = 100_000_000


@takes(TableArguments)
def read_tables(edges: Any = None, nodes: Any = None, **named: Any) -> TableGraph:
    """Read a graph from a table of edges and one of nodes, or extend an earlier graph by such tables.

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
        edges: A CSV, Parquet or JSON file, a glob of them, or a data frame; or one SELECT in DuckDB's SQL, which can only
            read local files: ``SELECT a AS source, b AS target FROM 'trades.parquet'``. None to add only nodes to ``base``.
            For several kinds of edges, a dictionary of tables by name; between kinds of nodes, by source, relation and
            target, as in PyG: ``{("user", "bought", "item"): "purchases.csv"}``.
        nodes: Likewise, one row per node; None: features come from the structure of the graph. For several kinds of nodes, a
            dictionary of tables by name: ``{"user": "users.csv", "item": "items.csv"}``. User 7 then has the id ``user:7``,
            and ``columns`` has its ``node_kind`` and ``original_id``. ``user.age`` names a column of one table.
        feature_matrix: More features: a NumPy or SciPy array, or a file, ``.npy`` or ``.npz`` (SciPy's).
            Row i belongs to row i of the node table or, without one, to node i.
        source: Column of sources; default: one with a common name, else the first.
        target: Column of targets; default: one with a common name, else the second.
        weight: Column of weights; default: one with a common name, else none. A list, if tables of edges have different ones.
        edge_type: Column with the kinds of edges. The weights of each kind are normalised by the degrees in that kind.
        until: Leave out later edges, by a column of dates or numbers: ``date=2020-12-31``; also a month, a year or a number.
        id: Column of node ids; default: the one whose values are ends of edges.
        label: Column of labels, if there is one; never a feature.
        names: Column of node names, for reports; it may be a feature or not. Default: the first whose own name ends in
            ``name`` or ``title``, with short and mostly distinct text. The id column means none.
        features: Columns of the node table that are features; default: all that can be.
        ignore: Columns of either table that are not used.
        types: Types of columns by name: ``text``, ``category``, ``number``, ``date``, ``bool``, ``tags``, or ``id`` for a
            column that is not a feature. Default: inferred.
        header: Whether text files have a header line; default: decided by common names and by the lines below, else an error.
        encoding: Encoding of CSV and JSON files, such as ``cp1252`` or ``utf-16``; default: detected, else UTF-8.
        directed: Whether edges are directed; default: as in ``base``, else no.
        feature_encoder: An earlier encoder, to encode features in the same way; default: a new one is fitted.
        base: An earlier result to extend: its nodes come first, in their order, and its feature encoder is used. New rows
            replace those of the same nodes, and new weights those of the same edges.
        memory: A limit on DuckDB's memory while reading, such as ``4 GB``; if not given, a third of what is unused,
            also in a container. Features, edges and node columns come on top of it. If they will not fit, that is an error.
        name: What to call the graph.
        progress: Called with a line now and then while many columns are read.
    """
    arguments = check_arguments("read_tables", edges, nodes, **named)
    unused, duckdb_bytes = unused_memory(), None
    if (limit := arguments.memory) is not None:
        duckdb_bytes = parse_bytes(limit)
    elif unused is not None:
        duckdb_bytes = max(_LEAST_DUCKDB_BYTES, unused // _DUCKDB_PARTS)
        limit = f"{duckdb_bytes} B"
    with closing(connect(limit)) as db:
        sink = MemorySink(db, arguments, unused, duckdb_bytes)
        info = build_graph(db, arguments, sink)
        return TableGraph(replace(sink.graph, facts=info.facts), *info, sink.columns)

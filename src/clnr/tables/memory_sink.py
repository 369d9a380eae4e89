"""A graph from tables in memory: a new one, or an earlier one extended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.tables import merge
from clnr.tables.columns.columns import label_sql, read_columns
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.structural import StructuralFeatures, degree_features
from clnr.tables.edges.edge_list import EdgeList, read_edge_list
from clnr.tables.io.source import Table
from clnr.tables.io.sql import fetch_numpy
from clnr.tables.load import Loaded
from clnr.tables.reading_memory import ReadingMemory
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_driver import GraphSink

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class MemorySink(GraphSink):
    """Takes a graph into memory.

    Args:
        db: The connection, which is closed before the graph is made.
        arguments: What is read; its ``base`` is extended.
        memory: What may be used of it.

    Attributes:
        graph: The graph, when it is complete.
        columns: The columns of the node table as an Arrow table, one row per node; None if there is no node table.
    """

    graph: Graph
    columns: Any = None
    _features: Any
    _labels: Array | None = None

    def __init__(self, db: DuckDBPyConnection, arguments: TableArguments, memory: ReadingMemory):
        self._db, self._arguments, self._base, self._memory = db, arguments, arguments.base, memory

    def check_loaded(self, loaded: Loaded) -> None:
        self._memory.check(self._db, loaded)

    def take_ids(self, as_integers: bool) -> None:
        index_sql = "SELECT ids.i AS i FROM row_ids JOIN ids USING (id) ORDER BY row_ids.i"
        # The node of each row of the node table; without one, those that only edges have.
        self._index = fetch_numpy(self._db, index_sql, "nodes")["i"]
        self._ids = fetch_numpy(self._db, "SELECT id FROM ids ORDER BY i", "nodes")["id"]
        if self._base is not None:
            self._rows = merge.replaced_rows(self._base.graph.num_nodes, self._index, len(self._ids))

    def take_edges(self, loaded: Loaded) -> list[str]:
        base, title = self._base, loaded.edges_title
        self._edges = read_edge_list(self._db, title, loaded.merging) if loaded.edges else EdgeList.none()
        if base is None:
            return []
        if loaded.edges and not self._arguments.allow_disjoint:
            merge.check_linked(base.graph, self._edges, self._index, title)
        self._edges, notes = merge.merge_edges(base.graph, self._edges, self._arguments.is_directed)
        return notes

    def take_labels(self, node_table: Table | None, label: str | None) -> None:
        if node_table is not None and label is not None:
            classes = fetch_numpy(self._db, label_sql(node_table, label), node_table.name)["c"]
            self._labels = classes.astype(np.int64)
        if self._base is not None:
            self._labels = merge.merge_labels(self._base.graph.labels, self._labels, self._base.graph.num_nodes, self._rows)

    def take_features(self, loaded: Loaded, encoder: FeatureEncoder) -> None:
        if loaded.node_table is None:
            self._features = encoder.unknown(len(self._index))
        else:
            self._features = encoder.transform(self._db, loaded.node_table, loaded.matrix)
        if self._base is not None:
            self._features = merge.merge_features(self._base.graph.features, self._features, self._rows)

    def take_structure(self, structure: StructuralFeatures | None) -> StructuralFeatures:
        source, target, weight = self._edges
        there = slice(None) if weight is None else weight > 0
        degrees = degree_features(source[there], target[there], len(self._ids))
        structure = structure or StructuralFeatures.fit(degrees)
        self._features = structure.features(degrees, self._ids)
        return structure

    def take_columns(self, node_table: Table | None) -> Any:
        if node_table is not None:
            self.columns = read_columns(self._db, node_table)
        if self._base is not None:
            self.columns = merge.merge_columns(self._base.columns, self.columns, self._base.graph.num_nodes, self._rows)
        return self.columns

    def finish(self) -> int:
        # The graph takes the place of DuckDB in memory.
        self._db.close()
        self.graph = graph = Graph.from_edges(
            *self._edges[:2],
            self._features,
            weight=self._edges.weight,
            undirected=not self._arguments.is_directed,
            labels=self._labels,
            ids=self._ids,
            split=None if self._base is None else self._base.graph.split,
            name=self._arguments.graph_name,
        )
        return int(((np.diff(graph.incoming.indptr) == 0) & (np.diff(graph.outgoing.indptr) == 0)).sum())

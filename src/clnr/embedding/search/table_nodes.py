"""The nodes of a graph in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clnr import rng
from clnr.embedding.planning.graph_facts import degrees_of, graph_facts, table_warnings
from clnr.embedding.reporting.drawing_time import MOST_MAP_NODES
from clnr.embedding.search.node_ids import ArrayIds
from clnr.embedding.search.nodes import GraphNodes, ShownNodes
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.tables import TableGraph
from clnr.tables.io.source import Column, Table
from clnr.tables.roles.column_names import find_column
from clnr.tables.roles.node_names import can_name
from clnr.tables.table_graph import NODES, TableInfo


class TableNodes(GraphNodes):
    """The nodes of a graph in memory.

    Args:
        table_graph: The graph, and how it was read.
    """

    saved_in = None

    def __init__(self, table_graph: TableGraph):
        self._table_graph = table_graph
        self.ids = ArrayIds(table_graph.graph.node_ids)
        self.info = TableInfo(table_graph.feature_encoder, table_graph.classes, table_graph.ingest_report)
        self.num_nodes, self.title = table_graph.graph.num_nodes, table_graph.graph.name

    @property
    def table_graph(self) -> TableGraph:
        return self._table_graph

    @property
    def warnings(self) -> list[str]:
        return table_warnings(self._table_graph)

    def is_of(self, graph: Graph | GraphFolder) -> bool:
        return graph is self._table_graph.graph

    def column_of(self, column: str, nodes: Array) -> Any:
        return self._table_graph.columns.select([column]).take(nodes)

    def column_parts(self, column: str) -> list[Any]:
        return [self._table_graph.columns[column]]

    def linked(self, node: int, *, needed: bool = False) -> set[int]:
        ways = self._table_graph.graph.incoming, self._table_graph.graph.outgoing
        return {each for way in ways for each in way.indices[way.indptr[node] : way.indptr[node + 1]].tolist()}

    def labels_of(self, nodes: Array) -> list[int] | None:
        labels = self._table_graph.graph.labels
        return None if labels is None else labels[nodes].tolist()

    def with_names(self, column: str, where: Path | str) -> TableNodes:
        columns = self._table_graph.columns
        if columns is None:
            raise DataError(f"{where}: there is no node table, and so no column '{column}' for names")
        usable = {field.name: Column("", str(field.type)) for field in columns.schema if can_name(field.type)}
        table_name = str(where / NODES) if isinstance(where, Path) else f"the node table of {where}"
        names = find_column(Table(table_name, "", usable), column, (), "names")
        report = dataclasses.replace(self._table_graph.ingest_report, names=names)
        return TableNodes(self._table_graph._replace(ingest_report=report))

    def shown(self) -> ShownNodes:
        graph = self._table_graph.graph
        nodes = np.arange(self.num_nodes)
        if self.num_nodes > MOST_MAP_NODES:
            nodes = np.sort(rng.permute(rng.key(0, "shown"), torch.arange(MOST_MAP_NODES), self.num_nodes).numpy())
        facts = graph_facts(graph)
        if any(self.names_of(nodes)):
            facts["names"] = f"column {self.name_column}"
        return ShownNodes(nodes, self._table_graph, nodes, degrees_of(graph)[nodes], facts)

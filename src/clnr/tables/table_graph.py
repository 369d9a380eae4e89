"""A graph from tables, with what is needed to extend it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.edges.ingest_report import IngestReport
from clnr.tables.kinds.table_kinds import NODE_KIND, ORIGINAL_ID, kind_of
from clnr.tables.roles.node_names import names_at


class TableGraph(NamedTuple):
    """A graph from tables, and what is needed to extend it by more tables.

    Attributes:
        graph: The graph.
        feature_encoder: How its features were made; None if they did not come from tables.
        classes: Names of the labels 0, 1, 2 ...
        ingest_report: What was found in the tables.
        columns: The columns of the node table as an Arrow table, one row per node; None if there was no node table.
    """

    graph: Graph
    feature_encoder: FeatureEncoder | None
    classes: tuple[str, ...] = ()
    ingest_report: IngestReport = IngestReport()
    columns: Any = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of all labels; a label without a name is called by its number."""
        return tuple(self.class_name(label) for label in range(max(len(self.classes), self.graph.num_classes)))

    def class_name(self, label: int) -> str:
        """The name of a label."""
        return self.classes[label] if label < len(self.classes) else str(label)

    @property
    def kind_columns(self) -> Any:
        """The kind of each node and its id among these, as an Arrow table; None if nodes have no kinds."""
        wanted = [NODE_KIND, ORIGINAL_ID]
        there = self.columns is not None and set(wanted) <= set(self.columns.column_names)
        return self.columns.select(wanted) if self.ingest_report.node_kinds and there else None

    @property
    def kind_numbers(self) -> Array | None:
        """The kind of each node, as a number; None if nodes are of one kind."""
        number = {kind: place for place, kind in enumerate(self.ingest_report.node_kinds)}
        if len(number) < 2:
            return None
        return np.array([number[kind_of(each)] for each in self.graph.node_ids.tolist()], np.int64)

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" where a node has none besides its id; empty if no column holds names."""
        if self.ingest_report.names is None:
            return []
        ids = [str(each) for each in self.graph.node_ids[nodes].tolist()]
        return names_at(self.columns, self.ingest_report.names, nodes, ids)

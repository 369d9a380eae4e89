"""Who the nodes of an embedding are: their ids, names, labels and neighbours. Nothing here needs torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clnr.embedding.search.node_ids import NodeIds
from clnr.embedding.search.node_search import NodeTexts, Texts
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.tables import TableGraph
from clnr.tables.roles.node_names import name_texts, names_at
from clnr.tables.table_graph import TableInfo


class Nodes(ABC):
    """The nodes of an embedded graph, which is in memory or in files: what is in files is read when it is asked for.

    Attributes:
        ids: Their ids.
        info: How the tables of the graph were read.
    """

    ids: NodeIds
    info: TableInfo

    @property
    def name_column(self) -> str | None:
        """The column of names; None if no column holds names, or the table of nodes is not there."""
        return self.info.ingest_report.names

    @abstractmethod
    def column_of(self, column: str, nodes: Array) -> Any:
        """A column of the table of nodes for some nodes, as an Arrow table."""

    @abstractmethod
    def column_parts(self, column: str) -> Iterable[Any]:
        """A column of the table of nodes, as Arrow arrays that are read one at a time."""

    @abstractmethod
    def linked(self, node: int, *, needed: bool = False) -> set[int]:
        """The neighbours of a node in the graph, in either direction; if its edges cannot be read, none or, if ``needed``, an
        error."""

    @abstractmethod
    def labels_of(self, nodes: Array) -> list[int] | None:
        """The labels of some nodes, -1 for one without; None if the graph has none."""

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without; empty if no column holds names."""
        column = self.name_column
        if column is None:
            return []
        ids = [str(each) for each in self.ids[nodes].tolist()]
        return names_at(self.column_of(column, nodes), column, np.arange(len(nodes)), ids)

    def name_texts(self) -> Texts | None:
        """The names of all nodes; None if no column holds names."""
        column = self.name_column
        return None if column is None else lambda: map(name_texts, self.column_parts(column))

    def find_named(self, name: Any) -> int:
        """The node of this name; an error lists near matches, by id or name."""
        return NodeTexts(self.ids.texts, self.name_texts()).find_named(name)


class ShownNodes(NamedTuple):
    """The nodes that a report shows: all of a graph, or a sample.

    Attributes:
        nodes: Their numbers, sorted.
        table_graph: A graph that has them, and the edges between them.
        places: Their numbers in this graph.
        degrees: How many edges each has in the whole graph, in either direction.
        facts: Of the whole graph: values by name.
    """

    nodes: Array
    table_graph: TableGraph
    places: Array
    degrees: Array
    facts: dict[str, str]


class GraphNodes(Nodes):
    """The nodes of a result, and their graph.

    Attributes:
        num_nodes: How many there are.
        title: What the graph is called.
        saved_in: A folder that has all files of the result; None if they are yet to be written.
    """

    num_nodes: int
    title: str
    saved_in: Path | None

    @property
    @abstractmethod
    def table_graph(self) -> TableGraph:
        """The graph, which more tables can be added to; an error if it is in files."""

    @property
    @abstractmethod
    def warnings(self) -> list[str]:
        """Odd things in the tables, and what was done about each, a line each."""

    @abstractmethod
    def is_of(self, graph: Graph | GraphFolder) -> bool:
        """Whether this is the graph that was embedded."""

    @abstractmethod
    def with_names(self, column: str, where: Path | str) -> GraphNodes:
        """The same with a column of the table of nodes as their names; the column of ids stands for no names.

        Args:
            column: The column, whatever its case.
            where: What to call the graph in errors: its folder.
        """

    @abstractmethod
    def shown(self) -> ShownNodes:
        """The nodes that a report shows, the same at every call."""

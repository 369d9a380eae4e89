"""Who the nodes of an embedding are: their ids, names, labels and neighbours. Nothing here needs torch."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clnr.embedding.planning.graph_facts import facts_in_words, graph_counts, table_warnings
from clnr.embedding.search.node_ids import ArrayIds, NodeIds, NodeTexts, equal_texts
from clnr.errors import ClnrError, DataError, option
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.support.arguments import check_choice
from clnr.tables import TableGraph
from clnr.tables.ingest_report import NODES
from clnr.tables.io.source import Column, Table
from clnr.tables.roles.column_names import find_column
from clnr.tables.roles.node_names import can_name, name_texts, names_at
from clnr.tables.table_graph import TableInfo

# The most nodes that a map shows.
_MOST_MAP_NODES = 100_000


class Nodes(ABC):
    """The nodes of an embedded graph, which is in memory or in files: what is in files is read when it is asked for."""

    ids: NodeIds
    info: TableInfo
    saved_in: Path | None

    @property
    def name_column(self) -> str | None:
        """The column of names; None if no column holds names, or the table of nodes is not there."""
        return self.info.ingest_report.names

    def check_kind(self, kind: str) -> None:
        """Fail if nodes are never of this kind."""
        if not (kinds := self.info.ingest_report.node_kinds):
            raise ClnrError(f"nodes of this graph have no kinds: leave out {option('kind')}")
        check_choice("kind of nodes", kind, kinds)

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

    def find_named(self, name: Any) -> int:
        """The node of this name; an error lists near matches, by id or name."""
        column = self.name_column
        names = None if column is None else lambda: map(name_texts, self.column_parts(column))
        return NodeTexts(self.ids.texts, names, self._names_hint if column is None else lambda _: "").find_named(name)

    def _names_hint(self, text: str) -> str:
        """How to find nodes by a column of the node table that has a text; "" if none has it, or the table is not there."""
        for column in (each.column for each in self.info.ingest_report.columns if each.table == "nodes"):
            # Columns of lists have no texts, and vectors are not kept.
            with contextlib.suppress(DataError, KeyError, NotImplementedError):
                if len(equal_texts(map(name_texts, self.column_parts(column)), text)):
                    command = f"clnr report {shlex.quote(str(self.saved_in))} --name {shlex.quote(column)}"
                    how = f"read_tables(names={column!r})" if self.saved_in is None else command
                    return f"; column '{column}' has it: {how} finds nodes by that column"
        return ""


class ShownNodes(NamedTuple):
    """The nodes that a report shows: all of a graph, or a sample.

    ``table_graph`` has them and the edges between them, by the numbers ``places``; degrees and facts are of the whole graph.
    """

    nodes: Array
    table_graph: TableGraph
    places: Array
    degrees: Array
    facts: dict[str, str]


class GraphNodes(Nodes):
    """The nodes of a result, and their graph.

    ``saved_in`` is a folder that has all files of the result; None if they are yet to be written.
    """

    num_nodes: int
    title: str

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
    def features_of(self, nodes: Array) -> Any:
        """The features of some nodes, dense or sparse; None if they cannot be read."""

    @abstractmethod
    def with_names(self, column: str, where: Path | str) -> GraphNodes:
        """With a column of the table of nodes as their names, that of ids for none; errors call the graph ``where``."""

    @abstractmethod
    def shown(self) -> ShownNodes:
        """The nodes that a report shows, the same at every call."""


def sample_nodes(count: int, most: int) -> Array:
    """A sample of ``count`` nodes, sorted: all, or ``most`` of them, drawn uniformly and the same at every call."""
    if count <= most:
        return np.arange(count)
    # Questions for similar nodes do not need it.
    import torch

    from clnr import rng

    return np.sort(rng.permute(rng.key(0, "shown"), torch.arange(most), count).numpy())


class TableNodes(GraphNodes):
    """The nodes of a graph in memory."""

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

    def features_of(self, nodes: Array) -> Any:
        return self._table_graph.graph.features[nodes]

    def with_names(self, column: str, where: Path | str) -> TableNodes:
        columns = self._table_graph.columns
        if columns is None:
            raise DataError(f"{where}: column '{column}' for names needs a node table")
        usable = {field.name: Column("", str(field.type)) for field in columns.schema if can_name(field.type)}
        table_name = str(where / NODES) if isinstance(where, Path) else f"the node table of {where}"
        names = find_column(Table(table_name, "", usable), column, (), "names")
        report = dataclasses.replace(self._table_graph.ingest_report, names=names)
        return TableNodes(self._table_graph._replace(ingest_report=report))

    def shown(self) -> ShownNodes:
        graph = self._table_graph.graph
        nodes, facts = sample_nodes(self.num_nodes, _MOST_MAP_NODES), facts_in_words(graph_counts(graph))
        if any(self.names_of(nodes)):
            facts["names"] = f"column {self.name_column}"
        return ShownNodes(nodes, self._table_graph, nodes, graph.degrees[nodes], facts)

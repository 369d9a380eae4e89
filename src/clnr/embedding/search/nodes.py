"""Who the nodes of an embedding are: ids, names, labels, neighbours; what is in files is read when it is asked for.

Nothing here needs torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clnr.embedding.planning.graph_facts import counts_of, facts_in_words, table_warnings
from clnr.embedding.search.node_ids import NodeIds, NodeTexts, equal_texts
from clnr.errors import ClnrError, DataError, option
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import open_unchanged
from clnr.support.arguments import check_choice
from clnr.tables import TableGraph
from clnr.tables.ingest_report import NODES
from clnr.tables.io.source import Column, Table
from clnr.tables.node_table import NodeTable
from clnr.tables.roles.column_names import NODE_KIND, ORIGINAL_ID, find_column
from clnr.tables.roles.node_names import can_name, name_texts, names_at
from clnr.tables.table_graph import TableInfo, node_table, read_table_info


class ShownNodes(NamedTuple):
    """The nodes that a report shows: all of a graph, or a sample, and what is shown of each.

    ``start`` and ``links`` are a CSR of the edges among them, in either direction; ``columns`` are those of the node table, or
    None; degrees and facts are of the whole graph.
    """

    nodes: Array
    ids: list[str]
    names: list[str]
    labels: Array | None
    columns: Any
    start: Array
    links: Array
    degrees: Array
    facts: dict[str, str]


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of an embedding.

    Attributes:
        ids: Their ids.
        info: How tables were turned into their graph.
        found: Their graph; None if its folder is gone, or has another graph by now.
        table: The columns of the table of nodes, if there is one.
        digest: That of the graph.
        title: What to call the graph.
        saved_in: A folder that has all files of the result; None if they are yet to be written.
    """

    ids: NodeIds
    info: TableInfo
    found: Graph | None
    table: NodeTable | None
    digest: str
    title: str
    saved_in: Path | None = None

    @classmethod
    def of_tables(cls, table_graph: TableGraph) -> Nodes:
        """The nodes of a graph that is not saved yet."""
        graph, columns = table_graph.graph, table_graph.columns
        table = None if columns is None else NodeTable(columns, graph.num_nodes)
        return cls(NodeIds(graph.node_ids), table_graph.info, graph, table, graph.digest, graph.name)

    @classmethod
    def of_folder(cls, graph: Graph) -> Nodes:
        """The nodes of a graph that is in a folder."""
        ids = NodeIds(graph.node_ids, in_files=True)
        return cls(ids, read_table_info(graph), graph, node_table(graph), graph.digest, graph.name)

    def in_memory(self) -> Nodes:
        """The same, of which nothing is in files."""
        return self if self.graph.stored is None else Nodes.of_tables(self.table_graph)

    @property
    def kind_numbers(self) -> Array | None:
        """The kind of each node, as a number in as few bytes as can be; None if nodes are of one kind."""
        kinds = self.info.ingest_report.node_kinds
        if self.table is None or len(kinds) < 2:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        known, numbers = pa.array(kinds), [np.empty(0, np.min_scalar_type(len(kinds)))]
        for names in self.table.parts(NODE_KIND):
            # A name that is not known is of a kind of its own.
            places = pc.index_in(names.cast(pa.string()), known).fill_null(len(kinds))
            numbers.append(np.asarray(places).astype(numbers[0].dtype))
        return np.concatenate(numbers)

    def __getstate__(self) -> dict[str, Any]:
        # A graph in files may be larger than memory: its folder is opened again.
        stored = None if self.found is None else self.found.stored
        return vars(self) if stored is None else {**vars(self), "found": stored.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if isinstance(self.found, Path):
            found = open_unchanged(self.found, self.digest)
            vars(self).update(found=found, table=None if found is None else self.table)

    @property
    def num_nodes(self) -> int:
        return len(self.ids)

    @property
    def graph(self) -> Graph:
        """Their graph; an error if it is not there."""
        if self.found is None:
            raise DataError(f"{self.saved_in}: its graph folder is missing, or has another graph by now")
        return self.found

    @property
    def table_graph(self) -> TableGraph:
        """The graph in memory, to which more tables can be added."""
        return TableGraph(self.graph.in_memory(), *self.info, None if self.table is None else self.table.table())

    @property
    def warnings(self) -> list[str]:
        """Odd things in the tables, and what was done about each, a line each."""
        return [] if self.found is None else table_warnings(self.found, self.info)

    def is_of(self, graph: Graph) -> bool:
        """Whether this is the graph that was embedded."""
        return graph is self.found or (graph.stored is not None and graph.digest == self.digest)

    def check_kind(self, kind: str) -> None:
        """Fail if nodes are never of this kind."""
        if not (kinds := self.info.ingest_report.node_kinds):
            raise ClnrError(f"nodes of this graph have no kinds: leave out {option('kind')}")
        check_choice("kind of nodes", kind, kinds)

    def kinds_of(self, nodes: Array) -> Any:
        """The kinds of some nodes and their ids among these, as an Arrow table; None if nodes have no kinds."""
        wanted = [NODE_KIND, ORIGINAL_ID]
        if self.table is None or not self.info.ingest_report.node_kinds or not set(wanted) <= set(self.table.schema.names):
            return None
        return self.table.take(nodes, wanted)

    def linked(self, node: int, *, needed: bool = False) -> set[int]:
        """The neighbours of a node in the graph, in either direction; if its edges cannot be read, none or, if ``needed``, an
        error."""
        return self.graph.neighbours(node) if needed or self.found is not None else set()

    def labels_of(self, nodes: Array) -> list[int] | None:
        """The labels of some nodes, -1 for one without; None if the graph has none."""
        if self.found is None or self.found.labels is None:
            return None
        return self.found.check_labels(self.found.labels[nodes]).tolist()

    def features_of(self, nodes: Array) -> Any:
        """The features of some nodes, dense or sparse; None if they cannot be read."""
        if self.found is None:
            return None
        return self.found.take_sparse_features(nodes) if self.found.sparse else self.found.features[nodes].astype(np.float32)

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def name_column(self) -> str | None:
        """The column of names; None if no column holds names, or the table of nodes is not there."""
        return None if self.table is None else self.info.ingest_report.names

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without; empty if no column holds names."""
        column = self.name_column
        if column is None or self.table is None:
            return []
        ids = [str(each) for each in self.ids[nodes].tolist()]
        return names_at(self.table.take(nodes, [column]), column, np.arange(len(nodes)), ids)

    def find_named(self, name: Any) -> int:
        """The node of this name; an error lists near matches, by id or name."""
        column, table = self.name_column, self.table
        names = None if column is None or table is None else lambda: map(name_texts, table.parts(column))
        return NodeTexts(self.ids.texts, names, self._names_hint if column is None else lambda _: "").find_named(name)

    def _names_hint(self, text: str) -> str:
        """Says which column of the node table has a text; "" if none has it, or the table is not there."""
        if self.table is None:
            return ""
        for column in (each.column for each in self.info.ingest_report.columns if each.table == "nodes"):
            # Columns of lists have no texts, and vectors are not kept.
            with contextlib.suppress(DataError, KeyError, NotImplementedError):
                if len(equal_texts(map(name_texts, self.table.parts(column)), text)):
                    return f"; column '{column}' has it, and is not the column of names"
        return ""

    def with_names(self, column: str, where: Path | str) -> Nodes:
        """With a column of the table of nodes as their names, that of ids for none; errors call the graph ``where``."""
        if self.table is None:
            raise DataError(f"{where}: column '{column}' for names needs a node table")
        usable = {field.name: Column("", str(field.type)) for field in self.table.schema if can_name(field.type)}
        title = str(where / NODES) if isinstance(where, Path) else f"the node table of {where}"
        names = find_column(Table(title, "", usable), column, (), "names")
        report = dataclasses.replace(self.info.ingest_report, names=names)
        return dataclasses.replace(self, info=self.info._replace(ingest_report=report))

    # -- the report ---------------------------------------------------------------------------------------------------

    def shown(self, most: int) -> ShownNodes:
        """The nodes that a report shows, at most so many, the same at every call."""
        graph, nodes = self.graph, sample_nodes(self.num_nodes, most)
        names = self.names_of(nodes)
        facts = facts_in_words(counts_of(graph)) | ({"names": f"column {self.name_column}"} if any(names) else {})
        labels = self.labels_of(nodes)
        return ShownNodes(
            nodes,
            [str(each) for each in self.ids[nodes].tolist()],
            names,
            None if labels is None else np.array(labels, np.int64),
            None if self.table is None else self.table.take(nodes),
            *_edges_among(graph, nodes),
            graph.degrees[nodes],
            facts,
        )


def _edges_among(graph: Graph, nodes: Array) -> tuple[Array, Array]:
    """The edges among some nodes, which are sorted, in either direction, without loops: CSR indptr and indices."""
    count = len(nodes)
    keys = [np.empty(0, np.int64)]
    for way in graph.edges_by_end:
        edges = graph.take_edges(nodes, way)
        rows = np.repeat(np.arange(count), np.diff(edges.indptr))
        places = np.minimum(np.searchsorted(nodes, edges.indices), max(0, count - 1))
        among = (nodes[places] == edges.indices) & (rows != places) if count else np.empty(0, np.bool_)
        keys.append(rows[among] * count + places[among])
    rows, columns = np.divmod(np.unique(np.concatenate(keys)), max(1, count))
    return np.searchsorted(rows, np.arange(count + 1)), columns.astype(np.int32)


def sample_nodes(count: int, most: int) -> Array:
    """The numbers of some nodes, sorted: all, or ``most`` of them, drawn uniformly and the same at every call."""
    if count <= most:
        return np.arange(count)
    # Questions for similar nodes do not need it.
    import torch

    from clnr import rng

    return np.sort(rng.permute(rng.key(0, "shown"), torch.arange(most), count).numpy())

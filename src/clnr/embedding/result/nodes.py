"""Who the nodes of an embedding are: ids, names, kinds, labels and features; what is in files is read when it is asked for.

Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clnr.embedding.graph_facts import table_warnings
from clnr.embedding.result.artifact_files import GRAPH_FILE, ArtifactFiles
from clnr.embedding.result.node_ids import Texts, equal_texts, id_list, id_parts, near_texts, rows_of_texts, text_of
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.folder import open_graph, verify
from clnr.support.arguments import check_choice
from clnr.support.storage import errors_name
from clnr.tables import TableGraph
from clnr.tables.ingest_report import NODES, TABLES
from clnr.tables.node_table import NodeTable
from clnr.tables.roles.column_names import NODE_KIND, ORIGINAL_ID
from clnr.tables.roles.node_names import can_name, name_texts
from clnr.tables.table_graph import TableInfo, node_table, read_table_info

_SHOWN_NODES, _MOST_NAME_LETTERS = 5, 60


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of an embedding.

    Attributes:
        graph: Their graph, in memory or in a folder.
        info: How tables were turned into it.
        table: The columns of the table of nodes, if there is one.
    """

    graph: Graph
    info: TableInfo
    table: NodeTable | None

    @classmethod
    def of_tables(cls, table_graph: TableGraph) -> Nodes:
        """The nodes of a graph in memory."""
        graph, columns = table_graph.graph, table_graph.columns
        return cls(graph, table_graph.info, None if columns is None else NodeTable(columns, graph.num_nodes))

    @classmethod
    def of_folder(cls, graph: Graph) -> Nodes:
        """The nodes of a graph in a folder."""
        return cls(graph, read_table_info(graph), node_table(graph))

    @classmethod
    def load(cls, files: ArtifactFiles, whole: bool = False) -> Nodes:
        """The nodes of a model folder, read when they are asked for or, ``whole``, at once; then all of them is checked."""
        with files.reading(TABLES) as path:
            info = TableInfo.from_json(path.read_text(encoding="utf-8"))
        with files.reading(GRAPH_FILE) as manifest:
            graph = open_graph(manifest.parent)
        if whole:
            verify(manifest.parent)
        with errors_name(manifest):
            info.check_labels(graph.num_classes)
        nodes = cls(graph, info, node_table(graph))
        names = info.ingest_report.names
        if names is not None and nodes._text_columns.count(names) != 1:
            what = f"the column of names, '{names}', is not in {NODES}, is there twice, or has no texts"
            raise DataError(f"{files.folder / TABLES}: {what}")
        return cls.of_tables(nodes.table_graph) if whole else nodes

    def in_memory(self) -> Nodes:
        """The same, of which nothing is in files."""
        return self if self.graph.stored is None else Nodes.of_tables(self.table_graph)

    def __reduce__(self) -> tuple[Any, ...]:
        # A graph in files may be larger than memory: its folder is opened again.
        stored = self.graph.stored
        return _again, (self.graph if stored is None else stored.path, self.info, self.table)

    @property
    def ids(self) -> Any:
        return self.graph.node_ids

    @property
    def table_graph(self) -> TableGraph:
        """The graph in memory, to which more tables can be added."""
        return TableGraph(self.graph.in_memory(), *self.info, None if self.table is None else self.table.table())

    @property
    def warnings(self) -> list[str]:
        """Odd things in the tables, and what was done about each, a line each."""
        return table_warnings(self.graph, self.info)

    def kinds_of(self, nodes: Array) -> dict[str, Any]:
        """The kinds of some nodes and their ids among these, as Arrow columns by name; empty if nodes have no kinds."""
        if self.table is None or not self.info.ingest_report.node_kinds:
            return {}
        names = [NODE_KIND, ORIGINAL_ID]
        return dict(zip(names, self.table.take(nodes, names).columns, strict=True))

    @property
    def kind_numbers(self) -> Array | None:
        """The kind of each node, as a number; None if nodes are of one kind."""
        kinds = self.info.ingest_report.node_kinds
        if self.table is None or len(kinds) < 2:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        # In as few bytes as can be; a name that is not known is of a kind of its own.
        dtype = np.min_scalar_type(len(kinds))
        places = (pc.index_in(part.cast(pa.string()), pa.array(kinds)) for part in self.table.parts(NODE_KIND))
        return np.concatenate([np.empty(0, dtype), *(np.asarray(each.fill_null(len(kinds))).astype(dtype) for each in places)])

    def labels_of(self, nodes: Array) -> Array | None:
        """The labels of some nodes, -1 for one without; None if the graph has none."""
        return None if self.graph.labels is None else self.graph.check_labels(self.graph.labels[nodes])

    # -- ids and names --

    def find(self, name: Any) -> int:
        """The row of the node with this id, or else of this name; an error lists near matches."""
        row = int(self._find([name])[0])
        return self._find_named(name) if row < 0 else row

    def rows(self, names: Any) -> Array:
        """The rows of nodes with these ids; each row of an array with several columns is one id, a tuple."""
        listed = id_list(names)
        rows = self._find(listed)
        if (rows < 0).any():
            raise self._unknown(listed[int(np.argmax(rows < 0))])
        return rows

    def _find(self, names: list[Any]) -> Array:
        """The rows of the nodes with these ids, -1 where there is none; of a graph in files, by a pass over its ids."""
        if self.graph.stored is not None:
            return rows_of_texts(id_parts(self.graph), [text_of(name) for name in names])
        try:
            return np.array([self._index.get(name, self._index.get(text_of(name), -1)) for name in names], np.int64)
        except TypeError:
            raise DataError(f"an id must be hashable, and one of {names!r:.80} is not") from None

    @cached_property
    def _index(self) -> dict[Any, int]:
        """Rows by id and by its text: a number and its text are one id, as one table may have either."""
        names = self.ids.tolist()
        return {text_of(name): row for row, name in enumerate(names)} | {name: row for row, name in enumerate(names)}

    @property
    def name_column(self) -> str | None:
        """The column of names; None if no column holds names, or there is no table of nodes."""
        return None if self.table is None else self.info.ingest_report.names

    def names_of(self, nodes: Array) -> list[str]:
        """The names of some nodes, "" for one without, or whose name is its id."""
        if self.table is None or self.name_column is None:
            return [""] * len(nodes)
        names = name_texts(self.table.take(nodes, [self.name_column])[self.name_column]).to_pylist()
        ids = map(str, self.ids[nodes].tolist())
        return ["" if name is None or name == node else name for name, node in zip(names, ids, strict=True)]

    def _texts(self) -> Iterator[Texts]:
        """The name of each node, if a column holds names, and its id."""
        if self.table is not None and self.name_column is not None:
            yield map(name_texts, self.table.parts(self.name_column))
        yield id_parts(self.graph)

    def _find_named(self, name: Any) -> int:
        """The node of this name, or else of this id, whatever its case if none has it in this one."""
        for texts in self._texts() if isinstance(name, str) else ():
            nodes = equal_texts(texts, name)
            if len(nodes) == 1:
                return int(nodes[0])
            if len(nodes):
                raise DataError(f"{len(nodes):,} nodes are called {name!r:.80}; use the id of one: {self._called(nodes)}")
        raise self._unknown(name)

    def _unknown(self, node: Any) -> DataError:
        """The error that there is no such node, with those whose id or name is nearly so."""
        near = near_texts(self._texts(), text_of(node))
        what = f"did you mean {self._called(near)}?" if near else f"ids are such as {self._called(range(self.graph.num_nodes))}"
        return DataError(f"there is no node {text_of(node)!r:.80}; {what}")

    def _called(self, nodes: Sequence[int] | Array) -> str:
        """The ids of some nodes, each with its name, if it has one; of many, the first."""
        rows = np.array(nodes[:_SHOWN_NODES], np.int64)
        pairs = zip(self.ids[rows].tolist(), self.names_of(rows), strict=True)
        called = [f"{str(i)!r:.80}" + (f" ({name[:_MOST_NAME_LETTERS]})" if name else "") for i, name in pairs]
        return ", ".join(called + ["..."] * (len(nodes) > len(rows)))

    def with_names(self, column: str) -> Nodes:
        """With a column of the table of nodes, in any case, as their names; that of ids for none."""
        if self.table is None:
            raise DataError(f"column '{column}' for names needs a node table")
        known = {name.strip().casefold(): name for name in self._text_columns}
        names, report = known[check_choice("column", column.strip().casefold(), known)], self.info.ingest_report
        is_id = any((each.column, each.role) == (names, "id") for each in report.columns)
        report = dataclasses.replace(report, names=None if is_id else names)
        return dataclasses.replace(self, info=self.info._replace(ingest_report=report))

    @property
    def _text_columns(self) -> list[str]:
        """The columns of the table of nodes that can hold names."""
        return [] if self.table is None else [field.name for field in self.table.schema if can_name(field.type)]


def _again(graph: Graph | Path, info: TableInfo, table: NodeTable | None) -> Nodes:
    return Nodes(open_graph(graph) if isinstance(graph, Path) else graph, info, table)

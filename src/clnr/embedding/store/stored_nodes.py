"""The nodes of an embedding in shards, whose graph is in a folder of its own: read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from clnr.embedding.planning.graph_facts import facts_in_words, folder_counts
from clnr.embedding.search.node_ids import NodeIds, text_of
from clnr.embedding.search.nodes import GraphNodes, ShownNodes
from clnr.embedding.store.shards import Shards, chosen
from clnr.embedding.store.stored_columns import column_groups, stored_columns
from clnr.errors import ClnrError, DataError, option
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.tables import TableGraph
from clnr.tables.ingest_report import NODES
from clnr.tables.table_graph import TableInfo


class StoredIds(NodeIds):
    """The ids of all nodes, in shards: an array whose elements are read when they are asked for.

    It finds rows by a pass over all ids.
    """

    def __init__(self, shards: Shards):
        self._shards = shards

    @property
    def shape(self) -> tuple[int]:
        return (self._shards.nodes,)

    def __len__(self) -> int:
        return self._shards.nodes

    @property
    def values(self) -> StoredIds:
        return self

    def __getitem__(self, nodes: Any) -> Any:
        rows = chosen(nodes, len(self))
        return self._shards.ids(rows) if np.ndim(rows) else self._shards.ids(np.array([rows]))[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)

    def texts(self) -> Iterator[Any]:
        import pyarrow as pa

        return (ids.cast(pa.string()) for ids in self._shards.id_columns())

    def find(self, names: list[Any]) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = [text_of(name) for name in names]
        wanted, rows = pa.array(dict.fromkeys(texts), pa.string()), np.full(len(set(texts)), -1, np.int64)
        first = 0
        for ids in self.texts():
            places = pc.index_in(wanted, value_set=ids).to_numpy(zero_copy_only=False)
            rows[~np.isnan(places)] = first + places[~np.isnan(places)].astype(np.int64)
            if (rows >= 0).all():
                break
            first += len(ids)
        return rows[pc.index_in(pa.array(texts, pa.string()), value_set=wanted).to_numpy(zero_copy_only=False).astype(np.int64)]


class StoredNodes(GraphNodes):
    """The nodes of an embedding in shards. What their graph folder tells of them is not known if it is gone, or was changed.

    Unless it is given, it is looked for where it was, at every question.
    """

    def __init__(self, shards: Shards, info: TableInfo, folder: GraphFolder | None = None):
        self._shards, self._folder, self.info = shards, folder, info
        self.ids = StoredIds(shards)
        self.num_nodes, self.title, self.saved_in = shards.nodes, shards.graph[0].name, shards.folder

    def _graph_folder(self) -> GraphFolder | None:
        return self._folder or self._shards.graph_folder()

    @property
    def table_graph(self) -> NoReturn:
        raise ClnrError("a graph in files cannot be extended: ingest all of its tables again, and transform the new folder")

    @property
    def warnings(self) -> list[str]:
        return []

    def is_of(self, graph: Graph | GraphFolder) -> bool:
        return graph.digest == self._shards.graph[1]

    @property
    def name_column(self) -> str | None:
        folder = self._graph_folder()
        return None if folder is None or NODES not in folder.files else self.info.ingest_report.names

    def column_of(self, column: str, nodes: Array) -> Any:
        return stored_columns(self._needed_folder(), nodes, [column])

    def column_parts(self, column: str) -> Iterator[Any]:
        return column_groups(self._needed_folder(), column)

    def linked(self, node: int, *, needed: bool = False) -> set[int]:
        folder = self._graph_folder()
        if folder is None and needed:
            needed_folder = f"the graph folder, {self._shards.graph[0]}, which is missing or has changed"
            raise ClnrError(f"{option('unlinked', True)} needs {needed_folder}")
        return set() if folder is None else folder.neighbours(node)

    def labels_of(self, nodes: Array) -> list[int] | None:
        folder = self._graph_folder()
        return None if folder is None or folder.labels is None else folder.labels[nodes].tolist()

    def features_of(self, nodes: Array) -> Any:
        folder = self._graph_folder()
        if folder is None:
            return None
        # It needs torch, which questions for similar nodes do not.
        from clnr.engine.files.mapped_graph import map_folder

        return map_folder(folder).mapped.on_host(nodes)

    def with_names(self, column: str, where: Path | str) -> NoReturn:
        raise DataError(f"{where}: node names are fixed by clnr ingest --name")

    def _names_hint(self, text: str) -> str:
        return ""

    def shown(self) -> ShownNodes:
        # They need torch, which questions for similar nodes do not.
        from clnr.embedding.scoring.sampled_scores import shown_nodes

        folder = self._needed_folder()
        nodes = shown_nodes(folder)
        places, facts = np.arange(len(nodes)), facts_in_words(folder_counts(folder), folder.feature_type)
        return ShownNodes(nodes, self._sample(folder, nodes), places, folder.degrees(nodes), facts)

    def _needed_folder(self) -> GraphFolder:
        folder = self._graph_folder()
        if folder is None:
            path = self._shards.graph[0]
            raise DataError(f"{self.saved_in}: the report needs its graph folder, {path}, which is missing or has changed")
        return folder

    def _sample(self, folder: GraphFolder, nodes: Array) -> TableGraph:
        """Some nodes, which are sorted, and the edges between them; without features."""
        indptr, linked, _ = folder.rows("incoming").gather(nodes)
        places = np.minimum(np.searchsorted(nodes, linked), len(nodes) - 1)
        among = nodes[places] == linked
        graph = Graph.from_edges(
            places[among],
            np.repeat(np.arange(len(nodes)), np.diff(indptr))[among],
            np.zeros((len(nodes), 0), np.float32),
            labels=None if folder.labels is None else np.asarray(folder.labels[nodes]),
            ids=self._shards.ids(nodes),
            name=folder.name,
        )
        return TableGraph(graph, *self.info, stored_columns(folder, nodes))

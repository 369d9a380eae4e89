"""The graph in a model folder: graph.safetensors, tables.json and nodes.parquet. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.embedding.search.node_ids import ArrayIds
from clnr.embedding.search.nodes import Nodes
from clnr.embedding.store.artifact_files import FORMAT_VERSION, GRAPH, VECTORS, ArtifactFiles
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.arrays import check_csr
from clnr.graph.csr import Array
from clnr.graph.validation import as_labels
from clnr.support.storage import check_count
from clnr.tables import TableGraph
from clnr.tables.columns.node_columns import read_node_table
from clnr.tables.ingest_report import NODES, TABLES
from clnr.tables.roles.node_names import can_name
from clnr.tables.table_graph import TableInfo


def write_graph(graph: Graph, path: Path) -> None:
    """Write graph.safetensors."""
    import safetensors.numpy

    x = graph.features
    features = {"x.start": x.indptr, "x.columns": x.indices, "x.values": x.data} if sp.issparse(x) else {"x": x}
    size = {"size": np.array(x.shape, np.int64)}
    incoming = {"start": graph.incoming.indptr, "nodes": graph.incoming.indices, "weight": graph.incoming.weight}
    edges = {f"edges.{name}": part for name, part in incoming.items() if part is not None}
    labels = {} if graph.labels is None else {"labels": graph.labels}
    arrays = {name: np.ascontiguousarray(part) for name, part in (size | features | edges | labels).items()}
    path.write_bytes(safetensors.numpy.save(arrays, {"form": str(FORMAT_VERSION)}))


def load_table_graph(files: ArtifactFiles, ids: Array) -> TableGraph:
    """Read the graph back; every index, label and column is checked."""
    info = load_table_info(files)
    with files.reading(GRAPH) as path:
        import safetensors.numpy

        graph = replace(_from_arrays(safetensors.numpy.load(path.read_bytes()), ids), facts=info.facts)
        info.check_labels(graph.num_classes)
    columns = None
    if files.has(NODES):
        with files.reading(NODES) as path:
            columns = read_node_table(path, graph.num_nodes)
    check_name_column(files, info.ingest_report.names, None if columns is None else columns.schema)
    return TableGraph(graph, *info, columns)


def load_table_info(files: ArtifactFiles) -> TableInfo:
    """Read tables.json."""
    with files.reading(TABLES) as path:
        return TableInfo.from_json(path.read_text(encoding="utf-8"))


def check_name_column(files: ArtifactFiles, column: str | None, schema: Any) -> None:
    """The column of names, if there is one, must be in the node table once."""
    usable = [] if schema is None else [field.name for field in schema if can_name(field.type)]
    if column is not None and usable.count(column) != 1:
        raise DataError(
            f"{files.folder / TABLES}: the column of names, '{column}', is not in {NODES}, is there twice, or has no texts"
        )


class ArtifactNodes(Nodes):
    """The nodes of a model folder whose graph is in it, of which no more is read than the answers need.

    What is read is checked as ``load_table_graph`` checks it.
    """

    def __init__(self, files: ArtifactFiles, ids: Array):
        self._files, self._count, self.saved_in = files, len(ids), files.folder
        self.ids, self.info = ArrayIds(ids), load_table_info(files)

    @cached_property
    def _links_and_labels(self) -> tuple[Any, Array | None]:
        """The edges by target, and the labels of all nodes."""
        import safetensors

        wanted = ("size", "edges.start", "edges.nodes", "labels")
        with self._files.reading(GRAPH) as path:
            with safetensors.safe_open(str(path), "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in wanted if name in file.keys()}  # noqa: SIM118
            count, _ = _check_size(arrays["size"], self._count)
            incoming = check_csr(arrays["edges.nodes"], arrays["edges.nodes"], arrays["edges.start"], (count, count))
            labels = arrays.get("labels")
            if labels is not None:
                labels = as_labels(labels, count)
                self.info.check_labels(int(labels.max(initial=-1)) + 1)
        return incoming, labels

    def linked(self, node: int, *, needed: bool = False) -> set[int]:
        incoming, _ = self._links_and_labels
        sources = incoming.indices[incoming.indptr[node] : incoming.indptr[node + 1]]
        targets = np.searchsorted(incoming.indptr, np.flatnonzero(incoming.indices == node), "right") - 1
        return {*sources.tolist(), *targets.tolist()}

    def labels_of(self, nodes: Array) -> list[int] | None:
        _, labels = self._links_and_labels
        return None if labels is None else labels[nodes].tolist()

    def column_of(self, column: str, nodes: Array) -> Any:
        return self._read_column(column).take(nodes)

    def column_parts(self, column: str) -> list[Any]:
        return [self._read_column(column)[column]]

    def _read_column(self, column: str) -> Any:
        schema: Any = None
        values: Any = None
        if self._files.has(NODES):
            with self._files.reading(NODES) as path:
                import pyarrow.parquet as pq

                schema = pq.read_schema(path)
                values = read_node_table(path, self._count, [column])
        check_name_column(self._files, column, schema)
        return values


def _check_size(size: Array, ids: int) -> tuple[int, int]:
    """The numbers of nodes and features that a graph file states, if there are as many nodes as ids."""
    nodes, width = (check_count(each) for each in size.tolist())
    if nodes != ids:
        raise DataError(f"it has {nodes:,} nodes, but {VECTORS} has {ids:,}")
    return nodes, width


def _from_arrays(arrays: Mapping[str, Array], ids: Array) -> Graph:
    nodes, width = _check_size(arrays["size"], len(ids))
    if "x" in arrays:
        features: Any = arrays["x"]
    else:
        features = check_csr(arrays["x.values"], arrays["x.columns"], arrays["x.start"], (nodes, width))
    if features.shape != (nodes, width):
        raise DataError("the features do not have the stated size")
    links = check_csr(arrays["edges.nodes"], arrays["edges.nodes"], arrays["edges.start"], (nodes, nodes))
    target = np.repeat(np.arange(nodes), np.diff(links.indptr))
    weight, labels = arrays.get("edges.weight"), arrays.get("labels")
    return Graph.from_edges(arrays["edges.nodes"], target, features, weight=weight, labels=labels, ids=ids)

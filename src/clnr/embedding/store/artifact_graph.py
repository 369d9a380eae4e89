"""The nodes of a model folder, and their graph: a graph folder in it, or one that it names. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from clnr.embedding.search.node_ids import NodeIds
from clnr.embedding.search.nodes import Nodes
from clnr.embedding.store.artifact_files import GRAPH, VECTORS, ArtifactFiles
from clnr.embedding.store.export import id_column
from clnr.embedding.store.shards import ShardIds, Shards
from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.folder import open_graph, verify, write_graph
from clnr.graph.manifest import MANIFEST
from clnr.support.storage import errors_name
from clnr.tables.ingest_report import NODES, TABLES
from clnr.tables.node_table import NodeTable
from clnr.tables.roles.node_names import can_name
from clnr.tables.table_graph import TableInfo, node_table

GRAPH_FILE = f"{GRAPH}/{MANIFEST}"
"""The file that has the digests of all others of the graph."""


def write_nodes(nodes: Nodes, manifest: Path) -> None:
    """Write the graph folder that has this manifest: graph, node table, and how tables were read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    manifest.parent.mkdir()
    files: dict[str, Any] = {TABLES: lambda path: path.write_bytes(nodes.info.to_json())}
    if nodes.table is not None:
        columns = nodes.table.table()
        files[NODES] = lambda path: pq.write_table(columns, path)
    column = id_column(nodes.graph)
    numbers = pa.types.is_signed_integer(column.type)
    ids = column.to_numpy() if numbers else np.array([str(each) for each in column.to_pylist()], object)
    write_graph(replace(nodes.graph, ids=ids), manifest.parent, files=files)


def load_nodes(files: ArtifactFiles, vectors: Shards | Array, whole: bool = False) -> Nodes:
    """The nodes of a folder, given its shards, or the ids beside its vectors.

    A graph in the folder is read when it is asked for or, ``whole``, at once, and all of it is checked.
    """
    info = load_table_info(files)
    if isinstance(vectors, Shards):
        found, (path, digest) = vectors.graph_folder(), vectors.graph
        ids = NodeIds(ShardIds(vectors) if found is None else found.node_ids, in_files=True)
        table = None if found is None else node_table(found)
        nodes = Nodes(ids, info, found, table, digest, path.name, files.folder)
    else:
        nodes = _load_saved(files, vectors, info, whole)
    if nodes.found is not None:
        _check_names(nodes, files.folder / TABLES)
    return nodes


def _load_saved(files: ArtifactFiles, ids: Array, info: TableInfo, whole: bool) -> Nodes:
    """The nodes whose graph is in the folder."""
    with files.reading(GRAPH_FILE) as manifest:
        path = manifest.parent
    if whole:
        verify(path)
    graph = open_graph(path)
    with errors_name(manifest):
        info.check_labels(graph.num_classes)
        if graph.num_nodes != len(ids):
            raise DataError(f"it has {graph.num_nodes:,} nodes, but {VECTORS} has {len(ids):,}")
    named, table = replace(graph, ids=ids), node_table(graph)
    if whole:
        named, table = named.in_memory(), None if table is None else NodeTable(table.table(), len(ids))
    return Nodes(NodeIds(ids), info, named, table, graph.digest, graph.name)


def _check_names(nodes: Nodes, where: Path) -> None:
    """The column of names, if there is one, must be in the node table once."""
    names = nodes.info.ingest_report.names
    usable = [] if nodes.table is None else [field.name for field in nodes.table.schema if can_name(field.type)]
    if names is not None and usable.count(names) != 1:
        raise DataError(f"{where}: the column of names, '{names}', is not in {NODES}, is there twice, or has no texts")


def load_table_info(files: ArtifactFiles) -> TableInfo:
    """Read tables.json."""
    with files.reading(TABLES) as path:
        return TableInfo.from_json(path.read_text(encoding="utf-8"))

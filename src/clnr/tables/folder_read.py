"""Graph folders read: as a graph in memory, or how their tables were read."""

from __future__ import annotations

from pathlib import Path

from clnr.errors import DataError
from clnr.graph.graph_folder import MANIFEST, GraphFolder
from clnr.support.storage.checked_files import errors_name, read_stable
from clnr.tables.columns.columns import check_columns
from clnr.tables.edges.ingest_report import IngestReport
from clnr.tables.table_graph import TableGraph
from clnr.tables.table_info import NODES, TABLES, TableInfo


def load_graph_folder(path: Path) -> TableGraph:
    """A graph folder as a graph in memory, as ``read_tables`` has it."""
    return in_memory(GraphFolder.open(path))


def in_memory(folder: GraphFolder) -> TableGraph:
    """All of a graph folder, as ``read_tables`` has it."""
    return read_stable(folder.path, MANIFEST, lambda: _in_memory(GraphFolder.open(folder.path)))


def _in_memory(folder: GraphFolder) -> TableGraph:
    info = read_table_info(folder)
    columns = None
    if NODES in folder.files:
        with errors_name(folder.path / NODES):
            import pyarrow.parquet as pq

            columns = pq.read_table(folder.path / NODES)
            columns.validate(full=True)
            check_columns(columns)
            if columns.num_rows != folder.num_nodes:
                raise DataError(f"it has {columns.num_rows:,} rows for {folder.num_nodes:,} nodes")
    graph = folder.graph()
    return TableGraph(graph, info.feature_encoder, info.classes, info.ingest_report, columns)


def read_table_info(folder: GraphFolder) -> TableInfo:
    """How the tables of a graph folder were read."""
    if TABLES not in folder.files:
        return TableInfo(None, (), IngestReport(directed=folder.directed))
    with errors_name(folder.path / TABLES):
        info = TableInfo.from_json((folder.path / TABLES).read_text(encoding="utf-8"))
        info.check_labels(folder.num_classes)
        return info

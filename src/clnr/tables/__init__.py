"""Graphs from tables: files, queries or data frames, read by DuckDB."""

from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.structural import StructuralFeatures
from clnr.tables.edges.edge_list import IngestReport
from clnr.tables.folder_ingest import ingest, load_graph_folder
from clnr.tables.read import read_tables
from clnr.tables.table_graph import TableGraph

__all__ = ["FeatureEncoder", "IngestReport", "StructuralFeatures", "TableGraph", "ingest", "load_graph_folder", "read_tables"]

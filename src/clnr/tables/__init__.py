"""Your own tables as a graph: edges and nodes from files, queries or data frames, through DuckDB."""

from clnr.tables.edge_list import IngestReport
from clnr.tables.feature_encoder import FeatureEncoder
from clnr.tables.read import TableGraph, read_tables
from clnr.tables.structural import StructuralFeatures

__all__ = ["FeatureEncoder", "IngestReport", "StructuralFeatures", "TableGraph", "read_tables"]

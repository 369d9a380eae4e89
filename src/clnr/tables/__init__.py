"""Graphs from tables: files, queries or data frames, read by DuckDB."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clnr.tables.columns.feature_encoder import FeatureEncoder
    from clnr.tables.columns.structural import StructuralFeatures
    from clnr.tables.folder_ingest import ingest
    from clnr.tables.ingest_report import IngestReport
    from clnr.tables.read import read_tables
    from clnr.tables.table_graph import TableGraph, load_graph_folder

__all__ = ["FeatureEncoder", "IngestReport", "StructuralFeatures", "TableGraph", "ingest", "load_graph_folder", "read_tables"]

# The module that each name is in. It is imported when the name is first asked for: the command line takes its options from
# ``table_arguments``, and needs none of the others for its help.
_HOMES = {
    "FeatureEncoder": "columns.feature_encoder",
    "IngestReport": "ingest_report",
    "StructuralFeatures": "columns.structural",
    "TableGraph": "table_graph",
    "ingest": "folder_ingest",
    "load_graph_folder": "table_graph",
    "read_tables": "read",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clnr.tables' has no attribute '{name}'")
    return getattr(import_module(f"clnr.tables.{_HOMES[name]}"), name)

"""Graphs from tables: files, queries or data frames, read by DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clnr.tables.read import ingest, read_tables

__all__ = ["ingest", "read_tables"]


def __getattr__(name: str) -> Any:
    """The readers, which are imported when they are first asked for: the command line's help needs ``arguments`` alone."""
    if name not in __all__:
        raise AttributeError(f"module 'clnr.tables' has no attribute '{name}'")
    from clnr.tables import read

    return getattr(read, name)

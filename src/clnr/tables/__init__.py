"""Your own tables as a graph: edges and nodes from files, queries or data frames, through DuckDB."""

from clnr.tables.encoding import Encoding
from clnr.tables.reading import Findings, Read, read_tables

__all__ = ["Encoding", "Findings", "Read", "read_tables"]

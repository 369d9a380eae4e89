"""Your own tables as a graph: edges and nodes from files, queries or data frames, through DuckDB."""

from clnr.tables.encoding import Encoding
from clnr.tables.ends import Findings
from clnr.tables.reading import Read, read_tables
from clnr.tables.structure import Structure

__all__ = ["Encoding", "Findings", "Read", "Structure", "read_tables"]

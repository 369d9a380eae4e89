"""Your own tables as a graph: edges and nodes from files, queries or data frames, through DuckDB."""

from clnr.tables.edge_list import Findings
from clnr.tables.feature_encoder import Encoding
from clnr.tables.read import Read, read_tables
from clnr.tables.structural import Structure

__all__ = ["Encoding", "Findings", "Read", "Structure", "read_tables"]

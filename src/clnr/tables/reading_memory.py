"""Memory while tables are read: what DuckDB may take of it, and whether the graph fits beside that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.humanize import gigabytes, parse_bytes
from clnr.support.machine import memory
from clnr.tables.io.source import Table
from clnr.tables.io.sql import fetch_table, run
from clnr.tables.load import Loaded

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# DuckDB takes one of so many parts of what is unused, if nothing is said; the graph needs about two. Below the least, it fails.
_DUCKDB_PARTS = 3
_LEAST_DUCKDB_BYTES = 100_000_000
# Bytes of an edge when it was read, and while DuckDB merges it or the graph is made of it, when DuckDB is closed; of a value
# of a node as feature; and of rows that are being encoded. DuckDB may hold so many copies of the nodes while it sorts them.
_EDGE_READ_BYTES, _EDGE_BYTES, _FEATURE_BYTES, _CHUNK_BYTES = 24, 120, 8, 64_000_000
_NODE_COPIES = 2
# What was freed is not all given back at once.
_MARGIN_FACTOR = 1.25
_SAMPLE_ROWS = 1000


def measure_rows(db: DuckDBPyConnection, table: Table) -> tuple[int, int]:
    """The number of rows of a table, and about how many bytes a row has."""
    ((count,),) = run(db, f"SELECT count(*) FROM {table.sql}", table.name)
    sample = fetch_table(db, f"SELECT * FROM {table.sql} LIMIT {_SAMPLE_ROWS}", table.name)
    return int(count), sample.nbytes // max(1, sample.num_rows)


@dataclass(frozen=True)
class ReadingMemory:
    """What may be used.

    Attributes:
        unused: Bytes that were unused before reading; None if that is not known.
        duckdb: Bytes for DuckDB; None for its own choice.
    """

    unused: int | None
    duckdb: int | None

    @classmethod
    def of(cls, limit: str | None) -> ReadingMemory:
        """By what is unused now, and by a limit on DuckDB that the user gave."""
        unused = memory.unused_memory()
        if limit is not None:
            return cls(unused, parse_bytes(limit))
        return cls(unused, None if unused is None else max(_LEAST_DUCKDB_BYTES, unused // _DUCKDB_PARTS))

    def check(self, db: DuckDBPyConnection, loaded: Loaded) -> None:
        """Raise if the graph of loaded tables will not fit."""
        if self.unused is None:
            return
        edges = run(db, "SELECT count(*) FROM edges", "edges")[0][0] if loaded.edges else 0
        kept = 0
        if (table := loaded.node_table) is not None:
            nodes, row_bytes = measure_rows(db, table)
            kept = nodes * (row_bytes + _FEATURE_BYTES * len(loaded.roles.features))
        stored = _NODE_COPIES * kept + _EDGE_BYTES * edges
        in_duckdb = stored if self.duckdb is None else min(stored, self.duckdb)
        at_once = min(_CHUNK_BYTES, kept) + _EDGE_READ_BYTES * edges + in_duckdb
        needed = int(_MARGIN_FACTOR * (kept + max(at_once, _EDGE_BYTES * edges)))
        if needed > self.unused:
            raise DataError(
                f"about {gigabytes(needed)} of memory are needed to read these tables, and {gigabytes(self.unused)} are free; "
                "clnr ingest writes them as a graph folder in bounded memory, from 1 GB on, and clnr embed --graph trains on it"
            )

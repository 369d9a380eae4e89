"""Memory while tables are read: what DuckDB may take of it, and whether the graph fits beside that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.humanize import gigabytes, parse_bytes
from clnr.support.machine import memory
from clnr.tables.io.sql import fetch_table, run
from clnr.tables.load import Loaded

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# DuckDB takes this part of what is unused, if nothing is said; the graph needs about twice as much. Below the least, it fails.
_SHARE = 3
_LEAST = 100_000_000
# Bytes of an edge when it was read, and while DuckDB merges it or the graph is made of it, when DuckDB is closed; of a value
# of a node as feature; and of rows that are being encoded. DuckDB may hold so many copies of the nodes while it sorts them.
_EDGE_READ, _EDGE, _FEATURE, _CHUNK = 24, 120, 8, 64_000_000
_COPIES = 2
# What was freed is not all given back at once.
_MARGIN = 1.25
_SAMPLE = 1000


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
        return cls(unused, None if unused is None else max(_LEAST, unused // _SHARE))

    def check(self, db: DuckDBPyConnection, loaded: Loaded) -> None:
        """Raise if the graph of loaded tables will not fit."""
        if self.unused is None:
            return
        edges = run(db, "SELECT count(*) FROM edges", "edges")[0][0] if loaded.edges else 0
        kept = 0
        if (table := loaded.node_table) is not None:
            ((nodes,),) = run(db, f"SELECT count(*) FROM {table.sql}", table.name)
            sample = fetch_table(db, f"SELECT * FROM {table.sql} LIMIT {_SAMPLE}", table.name)
            kept = nodes * (sample.nbytes // max(1, sample.num_rows) + _FEATURE * len(loaded.roles.features))
        stored = _COPIES * kept + _EDGE * edges
        at_once = min(_CHUNK, kept) + _EDGE_READ * edges + (stored if self.duckdb is None else min(stored, self.duckdb))
        needed = int(_MARGIN * (kept + max(at_once, _EDGE * edges)))
        if needed > self.unused:
            raise DataError(
                f"about {gigabytes(needed)} of memory are needed to read these tables, and {gigabytes(self.unused)} are free; "
                "clnr ingest writes them as a graph folder in bounded memory, from 1 GB on, and clnr embed --graph trains on it"
            )

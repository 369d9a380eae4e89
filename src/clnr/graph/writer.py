"""What takes the parts of a graph into memory, as ``GraphWriter`` takes them into a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.graph.csr import CSR, Array
from clnr.graph.graph import Graph
from clnr.graph.manifest import ARRAYS
from clnr.graph.node_table import NodeTable
from clnr.graph.table_info import TableInfo


class MemoryWriter:
    """Takes the arrays of a graph by the names that they have in a graph folder, its ids, and the columns of the node table."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._ids: Array | None = None
        self.table: NodeTable | None = None

    @contextmanager
    def array(self, name: str) -> Iterator[Callable[[Array], None]]:
        """Open one of ``ARRAYS``; what is yielded appends numbers, or rows of them, to it."""
        dtype, parts = np.dtype(ARRAYS[name]).newbyteorder("="), list[Array]()
        yield lambda values: parts.append(np.ascontiguousarray(values, dtype).reshape(-1))
        self._arrays[name] = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, dtype)])

    def read_back(self, name: str) -> Array:
        """An array that is there, of one dimension."""
        return self._arrays[name]

    def has(self, name: str) -> bool:
        return name in self._arrays

    def ids(self, batches: Iterable[Any]) -> None:
        """As ``GraphWriter.ids``."""
        self._ids = np.concatenate([batch.to_numpy(zero_copy_only=False) for batch in batches])

    def columns(self, parts: Iterator[Any], count: int) -> None:
        """As ``GraphWriter.columns``."""
        import pyarrow as pa

        self.table = NodeTable(pa.concat_tables(parts), count)

    def close(self, info: TableInfo, name: str, features: int) -> Graph:
        """The graph, checked."""
        arrays = self._arrays
        ways = [CSR(*(arrays.get(f"{way}.{part}") for part in CSR._fields)) for way in ("incoming", "outgoing")]  # type: ignore[arg-type]
        incoming, outgoing = ways
        count, x = len(incoming.indptr) - 1, arrays["features.values"]
        parts = x, arrays.get("features.indices"), arrays.get("features.indptr")
        return Graph(
            features=x.reshape(count, features) if parts[2] is None else sp.csr_array(parts, shape=(count, features)),
            incoming=incoming,
            outgoing=incoming if outgoing.indptr is None else outgoing,
            labels=arrays.get("labels.values"),
            ids=self._ids,
            name=name,
            info=info,
            columns=self.table,
        )

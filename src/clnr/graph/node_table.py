"""The columns of the table of nodes, a row for each node: an Arrow table in memory, or a file of which parts are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.storage import errors_name


class NodeTable:
    """The columns of ``nodes`` nodes, from an Arrow table, or from a Parquet file that ``column_sql`` made."""

    def __init__(self, source: Any, nodes: int):
        self._source, self._nodes = source, nodes

    @contextmanager
    def _file(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with errors_name(self._source), pq.ParquetFile(self._source) as file:
            _check_types(file.schema_arrow)
            _check_names(file.schema_arrow.names, columns or ())
            if (rows := file.metadata.num_rows) != self._nodes:
                raise DataError(f"it has {rows:,} rows for {self._nodes:,} nodes")
            yield file

    @property
    def schema(self) -> Any:
        """The names and types of the columns."""
        if not isinstance(self._source, Path):
            return self._source.schema
        with self._file() as file:
            return file.schema_arrow

    def take(self, nodes: Array, columns: list[str] | None = None) -> Any:
        """Columns, or all, as an Arrow table with a row for each of some nodes, in their order."""
        if not isinstance(self._source, Path):
            _check_names(self._source.column_names, columns or ())
            return (self._source if columns is None else self._source.select(columns)).take(nodes)
        import pyarrow as pa

        order = np.argsort(nodes, kind="stable")
        wanted, parts, first = nodes[order], [], 0
        with self._file(columns) as file:
            for group in range(file.metadata.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                low, high = np.searchsorted(wanted, [first, last])
                if low < high:
                    parts.append(file.read_row_group(group, columns).take(wanted[low:high] - first))
                first = last
            table = pa.concat_tables(parts or [file.schema_arrow.empty_table()])
            table.validate(full=True)
        return (table if columns is None else table.select(columns)).take(np.argsort(order))

    def parts(self, column: str) -> Iterator[Any]:
        """A column as Arrow arrays that are read one at a time."""
        if not isinstance(self._source, Path):
            _check_names(self._source.column_names, [column])
            yield self._source[column]
            return
        with self._file([column]) as file:
            for group in range(file.metadata.num_row_groups):
                part = file.read_row_group(group, [column])
                part.validate(full=True)
                yield part[column]

    def table(self) -> Any:
        """All of it as an Arrow table."""
        return self.take(np.arange(self._nodes)) if isinstance(self._source, Path) else self._source


def _check_names(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise if a column is there twice, or one that is wanted is not."""
    if len(set(names)) < len(names):
        raise DataError("two of its columns have the same name")
    for each in wanted:
        if each not in names:
            raise DataError(f"the nodes have no column '{each}'")


def _check_types(schema: Any) -> None:
    """Raise if there is a column of a type that is never written here, which later steps may not know."""
    import pyarrow as pa

    is_ = pa.types
    numbers = (is_.is_null, is_.is_boolean, is_.is_integer, is_.is_floating, is_.is_decimal)
    kinds = (*numbers, is_.is_string, is_.is_large_string, is_.is_date, is_.is_timestamp)
    for column in schema:
        right = any(is_one(column.type) for is_one in kinds)
        try:
            # An unknown time zone only shows when a time is written.
            pa.scalar(0 if is_.is_timestamp(column.type) else None, column.type).cast(pa.string())
        except pa.ArrowException:
            right = False
        if not right:
            raise DataError(f"column '{column.name}' is of type {column.type}, which clnr neither writes nor reads")

"""The node table of a graph folder: the rows of some nodes, without reading it whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from clnr.embedding.store.shards import stored_path
from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.storage import errors_name
from clnr.tables.columns.node_columns import check_columns
from clnr.tables.ingest_report import NODES
from clnr.tables.roles.column_names import NODE_KIND, ORIGINAL_ID
from clnr.tables.table_graph import read_table_info


def has_columns(folder: Graph) -> bool:
    """Whether there is a table of nodes."""
    return (stored_path(folder) / NODES).is_file()


def stored_columns(folder: Graph, nodes: Array, columns: list[str] | None = None) -> Any:
    """Columns of the node table as an Arrow table, one row for each of some nodes in their order; None if there is no table."""
    if not has_columns(folder):
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    order = np.argsort(nodes, kind="stable")
    wanted, parts, first = nodes[order], [], 0
    with errors_name(stored_path(folder) / NODES), pq.ParquetFile(stored_path(folder) / NODES) as file:
        if file.metadata.num_rows != folder.num_nodes:
            raise DataError(f"it has {file.metadata.num_rows:,} rows for {folder.num_nodes:,} nodes")
        for group in range(file.metadata.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(wanted, [first, last])
            if low < high:
                parts.append(file.read_row_group(group, columns).take(wanted[low:high] - first))
            first = last
        table = pa.concat_tables(parts or [file.schema_arrow.empty_table()])
        table.validate(full=True)
        check_columns(table)
    return table.take(np.argsort(order))


def stored_kinds(folder: Graph) -> Callable[[Array], Any]:
    """What gives the kinds of some nodes and their ids among these, as an Arrow table; None if nodes have no kinds."""
    has_kinds = bool(read_table_info(folder).ingest_report.node_kinds)
    return lambda nodes: stored_columns(folder, nodes, [NODE_KIND, ORIGINAL_ID]) if has_kinds else None


def first_of_kinds(folder: Graph) -> Array:
    """The first node of each kind, kinds being stored one after the other; empty if nodes are of one kind."""
    if len(read_table_info(folder).ingest_report.node_kinds) < 2 or not has_columns(folder):
        return np.empty(0, np.int64)
    first, starts_of_kinds, last = 0, list[int](), None
    for part in column_groups(folder, NODE_KIND):
        kinds = part.combine_chunks().dictionary_encode()
        names, codes = kinds.dictionary.to_pylist(), np.asarray(kinds.indices)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        starts_of_kinds += [first + int(at) for at in starts if at or names[codes[0]] != last]
        first, last = first + len(codes), names[codes[-1]] if len(codes) else last
    return np.array(starts_of_kinds, np.int64)


def column_groups(folder: Graph, column: str) -> Iterator[Any]:
    """A column of the node table as Arrow arrays, one row group at a time."""
    import pyarrow.parquet as pq

    with errors_name(stored_path(folder) / NODES), pq.ParquetFile(stored_path(folder) / NODES) as file:
        for group in range(file.metadata.num_row_groups):
            yield file.read_row_group(group, [column])[column]

"""The node table of a graph folder: the rows of some nodes, without reading it whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.support.storage import errors_name
from clnr.tables.columns.node_columns import check_columns
from clnr.tables.ingest_report import NODES
from clnr.tables.roles.column_names import NODE_KIND, ORIGINAL_ID
from clnr.tables.table_graph import read_table_info


def stored_columns(folder: GraphFolder, nodes: Array, columns: list[str] | None = None) -> Any:
    """Columns of the node table as an Arrow table, one row for each of some nodes in their order; None if there is no table."""
    if NODES not in folder.files:
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    order = np.argsort(nodes, kind="stable")
    wanted, parts, first = nodes[order], [], 0
    with errors_name(folder.path / NODES), pq.ParquetFile(folder.path / NODES) as file:
        _check_rows(file, folder)
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


def stored_kinds(folder: GraphFolder) -> Callable[[Array], Any]:
    """What gives the kinds of some nodes and their ids among these, as an Arrow table; None if nodes have no kinds."""
    has_kinds = bool(read_table_info(folder).ingest_report.node_kinds)
    return lambda nodes: stored_columns(folder, nodes, [NODE_KIND, ORIGINAL_ID]) if has_kinds else None


def stored_kind_numbers(folder: GraphFolder) -> Array | None:
    """The kind of each node, as ``TableGraph.kind_numbers``, in as few bytes as can be; None if nodes are of one kind."""
    kinds = read_table_info(folder).ingest_report.node_kinds
    if len(kinds) < 2 or NODES not in folder.files:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    known, numbers = pa.array(kinds), [np.empty(0, np.min_scalar_type(len(kinds)))]
    for names in column_groups(folder, NODE_KIND):
        # A name that is not known is of a kind of its own.
        places = pc.index_in(names.cast(pa.string()), known).fill_null(len(kinds))
        numbers.append(np.asarray(places).astype(numbers[0].dtype))
    return np.concatenate(numbers)


def column_groups(folder: GraphFolder, column: str) -> Iterator[Any]:
    """A column of the node table as Arrow arrays, one row group at a time."""
    import pyarrow.parquet as pq

    with errors_name(folder.path / NODES), pq.ParquetFile(folder.path / NODES) as file:
        _check_rows(file, folder)
        for group in range(file.metadata.num_row_groups):
            yield file.read_row_group(group, [column])[column]


def _check_rows(table: Any, folder: GraphFolder) -> None:
    if table.metadata.num_rows != folder.num_nodes:
        raise DataError(f"it has {table.metadata.num_rows:,} rows for {folder.num_nodes:,} nodes")

"""An earlier graph extended by new tables: its nodes come first, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, one_line
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.tables.edges.edge_list import EdgeList


def replaced_rows(before: int, index: Array, count: int) -> Array:
    """For each node, its row in the old rows followed by the new ones; ``index`` is the node of each new row."""
    rows = np.arange(count)
    rows[index] = before + np.arange(len(index))
    return rows


def merge_features(old: Any, new: Any, rows: Array) -> Any:
    if sp.issparse(old) or sp.issparse(new):
        return sp.vstack([sp.csr_array(old), sp.csr_array(new)], format="csr")[rows]
    return np.concatenate([old, new])[rows]


def merge_edges(graph: Graph, new: EdgeList, directed: bool) -> tuple[EdgeList, list[str]]:
    """The edges of both, and notes about them; an edge of both has the new weight."""
    source, target, weight = graph.edges()
    kept = source != target if directed else source < target
    old = EdgeList(source[kept], target[kept], None if weight is None else weight[kept])
    count = max(graph.num_nodes, *(int(end.max(initial=-1)) + 1 for end in new[:2]))
    before, after = (ends.source * count + ends.target for ends in (old, new))
    left = ~np.isin(before, after, assume_unique=True)
    source, target = np.concatenate([old.source[left], new.source]), np.concatenate([old.target[left], new.target])
    if old.weight is None and new.weight is None:
        return EdgeList(source, target, None), []
    first, added = (np.ones(len(ends.source), np.float32) if ends.weight is None else ends.weight for ends in (old, new))
    if new.weight is None:
        _, i, j = np.intersect1d(before, after, assume_unique=True, return_indices=True)
        added[j] = first[i]
    unweighted = [what for what, ends in (("earlier", old), ("new", new)) if ends.weight is None and len(ends.source)]
    notes = [f"the {what} edges have no weights, unlike the others: they weigh 1" for what in unweighted]
    return EdgeList(source, target, np.concatenate([first[left], added])), notes


def check_linked(graph: Graph, new: EdgeList, index: Array, name: str) -> None:
    """Raise if no new edge leads to a node of the earlier graph, and no row of the node table is of one.

    Args:
        graph: The earlier graph.
        new: Edges that extend it.
        index: The nodes that the node table has; without one, those that only edges have.
        name: What to call the table of edges.
    """
    if not any((nodes < graph.num_nodes).any() for nodes in (new.source, new.target, index)):
        one = one_line(str(graph.node_ids[0]), 80)
        raise DataError(
            f"{name}: none of its edges leads to a node of the earlier graph, such as '{one}'; "
            "are ids written alike? --standalone embeds the tables as a graph of their own (in Python, transform); "
            "--allow-disjoint (allow_disjoint=True) adds them all the same"
        )


def merge_labels(old: Array | None, new: Array | None, before: int, rows: Array) -> Array | None:
    """The labels of both; a table without labels leaves the old ones."""
    if old is None and new is None:
        return None
    old = np.full(before, -1) if old is None else old
    if new is None:
        return np.concatenate([old, np.full(len(rows) - before, -1)])
    return np.concatenate([old, new])[rows]


def merge_columns(old: Any, new: Any, before: int, rows: Array) -> Any:
    """The rows of two Arrow tables, by column names; the rows of None are empty."""
    import pyarrow as pa

    if old is None and new is None:
        return None
    if old is not None and old.num_rows != before:
        raise DataError(f"the earlier graph has {before:,} nodes, but its table of columns {old.num_rows:,} rows")
    below = len(rows) - before if new is None else new.num_rows
    parts = ((old, before), (new, below))
    names = dict.fromkeys(name for part, _ in parts if part is not None for name in part.column_names)
    moved = not np.array_equal(rows, np.arange(len(rows)))
    columns = {}
    for name in names:
        pair = [_column(pa, part, name, length) for part, length in parts]
        try:
            column = _concatenate(pa, pair)
            columns[name] = _take(pa, column, rows) if moved else column
        except (pa.ArrowException, ValueError, OverflowError):
            kind = " and ".join(dict.fromkeys(str(part.type) for part in pair))
            raise DataError(f"'{name}' of the earlier nodes and of the new ones cannot be combined: {kind}") from None
    return pa.table(columns)


def _column(pa: Any, part: Any, name: str, length: int) -> Any:
    there = part is not None and name in part.column_names
    return part.column(name) if there else pa.chunked_array([pa.nulls(length)])


def _concatenate(pa: Any, pair: list[Any]) -> Any:
    """One column below the other: of their common type, or as text if they have two."""
    kinds = {column.type for column in pair if not pa.types.is_null(column.type)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    both = [_cast(pa, column, kind) for column in pair]
    return pa.chunked_array([chunk for column in both for chunk in column.chunks], kind)


def _cast(pa: Any, column: Any, kind: Any) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.chunked_array([[None if each is None else str(each) for each in column.to_pylist()]], kind)


def _take(pa: Any, column: Any, rows: Array) -> Any:
    if pa.types.is_string(column.type) and column.nbytes > 1 << 30:
        column = column.cast(pa.large_string())
    return column.take(pa.array(rows))

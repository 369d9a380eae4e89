"""New tables onto an earlier graph: its nodes first and as they were, rows and edges that are new or changed after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.tables.edge_list import EdgeList


def taken(before: int, place: Array, count: int) -> Array:
    """Which row each node takes of the earlier rows with the new ones below them; ``place`` is where each new row goes."""
    take = np.arange(count)
    take[place] = before + np.arange(len(place))
    return take


def joined_features(old: Any, new: Any, take: Array) -> Any:
    if sp.issparse(old) or sp.issparse(new):
        return sp.vstack([sp.csr_array(old), sp.csr_array(new)], format="csr")[take]
    return np.concatenate([old, new])[take]


def joined_ends(graph: Graph, new: EdgeList, directed: bool) -> tuple[EdgeList, list[str]]:
    """Edges of either, and what to say of them; of one that is in both, the new weight counts."""
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
    bare = [what for what, ends in (("earlier", old), ("new", new)) if ends.weight is None and len(ends.source)]
    said = [f"the {what} edges have no weights, as the others have: they weigh 1" for what in bare]
    return EdgeList(source, target, np.concatenate([first[left], added])), said


def joined_labels(old: Array | None, new: Array | None, before: int, take: Array) -> Array | None:
    """A table without labels leaves those that are known."""
    if old is None and new is None:
        return None
    old = np.full(before, -1) if old is None else old
    if new is None:
        return np.concatenate([old, np.full(len(take) - before, -1)])
    return np.concatenate([old, new])[take]


def joined_columns(old: Any, new: Any, before: int, take: Array) -> Any:
    """Rows of two Arrow tables by the names of their columns; either may be None, whose rows are empty."""
    import pyarrow as pa

    if old is None and new is None:
        return None
    if old is not None and old.num_rows != before:
        raise DataError(f"the earlier graph has {before:,} nodes, but its table of columns {old.num_rows:,} rows")
    below = len(take) - before if new is None else new.num_rows
    parts = ((old, before), (new, below))
    names = dict.fromkeys(name for part, _ in parts if part is not None for name in part.column_names)
    moved = not np.array_equal(take, np.arange(len(take)))
    columns = {}
    for name in names:
        pair = [_column(pa, part, name, rows) for part, rows in parts]
        try:
            column = _together(pa, pair)
            columns[name] = _at(pa, column, take) if moved else column
        except (pa.ArrowException, ValueError, OverflowError):
            kind = " and ".join(dict.fromkeys(str(part.type) for part in pair))
            raise DataError(f"'{name}' of the earlier nodes and of the new ones cannot be put together: {kind}") from None
    return pa.table(columns)


def _column(pa: Any, part: Any, name: str, rows: int) -> Any:
    there = part is not None and name in part.column_names
    return part.column(name) if there else pa.chunked_array([pa.nulls(rows)])


def _together(pa: Any, pair: list[Any]) -> Any:
    """One column below the other: of their type, or as texts where they have two."""
    kinds = {column.type for column in pair if not pa.types.is_null(column.type)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    both = [_cast(pa, column, kind) for column in pair]
    return pa.chunked_array([chunk for column in both for chunk in column.chunks], kind)


def _cast(pa: Any, column: Any, kind: Any) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.chunked_array([[None if each is None else str(each) for each in column.to_pylist()]], kind)


def _at(pa: Any, column: Any, take: Array) -> Any:
    if pa.types.is_string(column.type) and column.nbytes > 1 << 30:
        column = column.cast(pa.large_string())
    return column.take(pa.array(take))

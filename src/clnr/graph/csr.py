"""Edges in CSR form, by source or by target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr import rng
from clnr.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]
Damaged = Callable[[str, str], DataError]
"""Makes the error of an array of a CSR, by its name, and of what is wrong."""
_TYPES = (np.int64, np.int32, np.float32)
_WEIGHT_SAMPLES, _SAMPLE_WEIGHTS = 64, 1 << 16
_SAMPLED_NEIGHBORS = 64


def distinct(values: Array) -> Array:
    """The distinct numbers of an array, sorted: ``np.unique``, which takes ten times as long for millions."""
    ordered = np.sort(values)
    return ordered[np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def are_among(values: Array, ordered: Array) -> Array:
    """For each number, whether it is among others that are sorted: ``np.isin``, which sorts both."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    return ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values


class CSR(NamedTuple):
    """Edges by one end: the neighbours of node ``i`` are ``indices[indptr[i] : indptr[i + 1]]``, sorted; weight may be None.

    Places are int64, nodes int32, weights float32; each array is in memory or mapped from a file.
    """

    indptr: Array
    indices: Array
    weight: Array | None


def to_csr(row: Array, column: Array, weight: Array | None, count: int) -> CSR:
    """Edges by their row end, sorted; duplicates become one, weights added; weight 0 is no edge."""
    values = np.ones(len(row), np.float32) if weight is None else weight
    matrix = sp.coo_array((values, (row, column)), shape=(count, count)).tocsr()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise DataError("the weights of an edge, added up over duplicates, are more than float32 holds")
    return _from_matrix(matrix, weight is not None)


def transpose(edges: CSR) -> CSR:
    """The same edges by their other end."""
    indptr, indices, weight = edges
    values = np.ones(len(indices), np.float32) if weight is None else weight
    matrix = sp.csr_array((values, indices, indptr), shape=(len(indptr) - 1,) * 2).T.tocsr()
    matrix.sort_indices()
    return _from_matrix(matrix, weight is not None)


def check_form(edges: CSR, count: int, damaged: Damaged) -> None:
    """Raise unless arrays have the types and sizes of edges of ``count`` nodes; what is in them, ``take_rows`` checks."""
    size = np.shape(edges.indices)[:1]
    for name, part, dtype, shape in zip(edges._fields, edges, _TYPES, [(count + 1,), size, size], strict=True):
        if part is None and name == "weight":
            continue
        if not isinstance(part, np.ndarray) or part.dtype != dtype or part.shape != shape:
            given = f"{part.dtype} of shape {part.shape}" if isinstance(part, np.ndarray) else type(part).__name__
            raise damaged(name, f"it must be {dtype.__name__} of shape {shape}, and is {given}")
    check_ends(edges.indptr, size[0], damaged)


def check_ends(indptr: Array, entries: int, damaged: Damaged) -> None:
    """Raise unless rows begin with the first entry and end with the last."""
    if (ends := (indptr[0], indptr[-1])) != (0, entries):
        raise damaged("indptr", f"it goes from {ends[0]} to {ends[1]} instead of from 0 to {entries}")


def take_rows(rows: CSR, nodes: Array, columns: int, damaged: Damaged, *, are_edges: bool = True) -> CSR:
    """The entries of some nodes, of edges or of sparse features, in their order; float32 if they have values.

    What is in files may be wrong: ``damaged`` if entries are not where they can be, or not of these ``columns``; if a number is
    not finite; and, of edges, if a row is not sorted, or has a column twice or a value below 0.
    """
    starts, ends = rows.indptr[nodes], rows.indptr[nodes + 1]
    wrong = (starts < 0) | (ends < starts) | (ends > len(rows.indices))
    if wrong.any():
        at = np.argmax(wrong)
        raise damaged("indptr", f"row {nodes[at]} is from entry {starts[at]} to {ends[at]} of {len(rows.indices):,}")
    indptr = np.concatenate([[0], np.cumsum(ends - starts)])
    together = len(nodes) and nodes[-1] - nodes[0] == len(nodes) - 1 and (np.diff(nodes) == 1).all()
    places = slice(starts[0], ends[-1]) if together else np.repeat(starts - indptr[:-1], ends - starts) + np.arange(indptr[-1])
    indices = rows.indices[places]
    follows = np.ones(len(indices) + 1, np.bool_)
    if are_edges:
        follows[1:-1] = indices[1:] > indices[:-1]
        follows[indptr] = True
    right = (indices >= 0) & (indices < columns) & follows[:-1]
    if not right.all():
        at, rule = np.argmin(right), "sorted, distinct and below" if are_edges else "below"
        raise damaged(
            "indices", f"row {_row_of(nodes, indptr, at)} has column {indices[at]}, and they must be {rule} {columns:,}"
        )
    if rows.weight is None:
        return CSR(indptr, indices, None)
    values = rows.weight[places].astype(np.float32, copy=False)
    right = np.isfinite(values) & (values >= 0 if are_edges else True)
    if not right.all():
        at, rule = np.argmin(right), "finite and not negative" if are_edges else "finite"
        raise damaged("weight", f"row {_row_of(nodes, indptr, at)} has {values[at]}, and numbers must be {rule}")
    return CSR(indptr, indices, values)


def _row_of(nodes: Array, indptr: Array, entry: int | np.integer) -> int:
    return int(nodes[np.searchsorted(indptr, entry, "right") - 1])


def find_edges(indptr: Array, indices: Array, row: Array, column: Array) -> Array:
    """Where the entries of some rows and columns are among ``indices``, -1 for those that are not there."""
    low, high = indptr[row], indptr[row + 1]
    end, searched = high.copy(), np.flatnonzero(low < high)
    while len(searched):
        middle = (low[searched] + high[searched]) // 2
        below = indices[middle] < column[searched]
        low[searched[below]] = middle[below] + 1
        high[searched[~below]] = middle[~below]
        searched = searched[low[searched] < high[searched]]
    found = low < end
    found[found] = indices[low[found]] == column[found]
    return np.where(found, low, -1)


def edge_keys(pairs: Array, count: int) -> Array:
    """The edges between pairs of nodes, [2, n], as numbers, sorted: each end times the count of nodes plus the other."""
    return np.unique(np.concatenate([pairs[0] * count + pairs[1], pairs[1] * count + pairs[0]]))


def median_weight(weights: Array | None) -> float:
    """The lower median of the weights of edges, of many by parts of them here and there; 1 where there are none."""
    if weights is None or not len(weights):
        return 1.0
    if len(weights) > _WEIGHT_SAMPLES * _SAMPLE_WEIGHTS:
        starts = np.linspace(0, len(weights) - _SAMPLE_WEIGHTS, _WEIGHT_SAMPLES).astype(np.int64)
        weights = np.concatenate([weights[start : start + _SAMPLE_WEIGHTS] for start in starts])
    middle = (len(weights) - 1) // 2
    return float(np.partition(weights, middle)[middle])


def draw_neighbours(edges: Sequence[CSR], nodes: Array, most: int, left_out: Array | None = None) -> tuple[Array, Array]:
    """At most ``most`` neighbours of some nodes, drawn by a hash of the pair: none depends on what others there are.

    Returned are, for each neighbour, the place of its node, in order, and the neighbour itself; no node is its own. Of
    a node with many edges, only some spread evenly over them are looked at. ``edge_keys`` that are ``left_out`` do not
    count. Edges are by one end, or by each.
    """
    nodes, sampled = nodes.astype(np.int64), []  # SciPy numbers nodes in int32 where a product is empty.
    for indptr, indices, _ in edges:
        start, end = indptr[nodes], indptr[nodes + 1]
        if not ((start >= 0) & (start <= end) & (end <= len(indices))).all():
            raise IndexError("edges are not where they should be")
        count = end - start
        place = np.repeat(np.arange(len(nodes)), np.minimum(count, _SAMPLED_NEIGHBORS))
        number, size = _number(place), count[place]
        sampled.append((place, indices[start[place] + number * size // np.minimum(size, _SAMPLED_NEIGHBORS)]))
    place, neighbour = (np.concatenate(parts).astype(np.int64) for parts in zip(*sampled, strict=True))
    total = len(edges[0].indptr) - 1
    if len(neighbour) and not 0 <= neighbour.min() <= neighbour.max() < total:
        raise IndexError("an edge points outside of the graph")
    counted = neighbour != nodes[place]
    if left_out is not None and len(left_out):
        counted &= ~np.isin(nodes[place] * total + neighbour, left_out)
    place, neighbour = place[counted], neighbour[counted]
    if len(edges) > 1:  # By both ends, it is one neighbour.
        place, neighbour = np.divmod(np.unique(place * total + neighbour), max(1, total))
    order = np.lexsort((rng.draw(rng.key(0, "neighbours"), nodes[place], neighbour), place))
    order = order[_number(place) < most]
    return place[order], neighbour[order]


def _number(place: Array) -> Array:
    """Of places in order, which of its equals each is: 0, 1, 2 ..."""
    return np.arange(len(place)) - np.searchsorted(place, place)


def _from_matrix(matrix: sp.csr_array, weighted: bool) -> CSR:
    weight = matrix.data.astype(np.float32) if weighted else None
    return CSR(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), weight)

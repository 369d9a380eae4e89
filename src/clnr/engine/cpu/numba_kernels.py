"""The CPU's loops, compiled by numba at first use and cached on disk: dropping entries of sparse matrices, and products.

Every function works on a range of rows and releases Python's lock, so that ``share_rows`` can split the rows between threads.
To assign to a whole slice, or to pass a constant to a function, would take seconds more to compile: loops, and ``np.int64(0)``.
"""

from __future__ import annotations

import functools

import numba
import numba.extending
import numpy as np

_compiled = functools.partial(numba.njit, nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})


@_compiled()
def _mix(x):
    """``rng.mix``."""
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * np.uint32(0x7FEB352D))
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@_compiled()
def _draw(a, b, i, j):
    """``rng.draw``."""
    return _mix(np.uint32(np.uint32(_mix(np.uint32(np.uint32(i) ^ a)) + np.uint32(j)) ^ b))


@_compiled()
def _kept(row, column, a, b, threshold, pairs, transposed):
    """``Drop.keep`` for one entry, which in the transposed matrix is at (column, row)."""
    if row == column:
        return True
    i, j = (row, column) if transposed else (column, row)
    if pairs and i > j:
        i, j = j, i
    return np.uint64(_draw(a, b, i, j)) >= threshold


@_compiled()
def count_kept(indptr, columns, values, rule, rows, counts, sums, low, high):
    """How many entries of each of these rows are kept, and the sum of their values."""
    a, b, thresholds, each, pairs, transposed = rule
    for k in range(low, high):
        i, count, total = rows[k], 0, np.float32(0)
        for e in range(indptr[i], indptr[i + 1]):
            if _kept(i, columns[e], a, b, thresholds[e * each], pairs, transposed):
                count += 1
                total += values[e]
        counts[k] = count
        sums[k] = total


@_compiled()
def fill_kept(indptr, columns, values, rule, rows, begin, to, weights, low, high):
    """Write the kept entries of each of these rows, from ``begin`` on: columns and values."""
    a, b, thresholds, each, pairs, transposed = rule
    for k in range(low, high):
        i, n = rows[k], begin[k]
        for e in range(indptr[i], indptr[i + 1]):
            if _kept(i, columns[e], a, b, thresholds[e * each], pairs, transposed):
                to[n] = columns[e]
                weights[n] = values[e]
                n += 1


@_compiled()
def _is_held_out(key, held_out, first, last):
    """Whether an edge is among those that are left out, of which ``first`` to ``last`` have its target."""
    held = False
    for k in range(first, last):
        held = held or held_out[k] == key
    return held


@_compiled()
def count_rows(indptr, columns, values, rule, rows, counts, sums, wrong, low, high):
    """``count_kept`` of a graph's edges, to which self-loops are added; without values edges weigh 1.

    Rows are ``wrong`` whose columns are not in order or not those of nodes, or that keep a value below 0 or not finite.
    """
    a, b, thresholds, _, pairs, transposed, held_out, loop_weight = rule
    nodes, one = len(indptr) - 1, np.float32(1)
    for k in range(low, high):
        i, count, total, loop = rows[k], 0, np.float32(0), False
        before, least = -1, np.float32(0)
        first, last = np.searchsorted(held_out, i * nodes), np.searchsorted(held_out, (i + 1) * nodes)
        for e in range(indptr[i], indptr[i + 1]):
            c = columns[e]
            if c <= before:
                before = nodes
                break
            before = c
            if c > i and not loop:
                count += 1
                total += loop_weight
            loop = loop or c >= i
            if _kept(i, c, a, b, thresholds[0], pairs, transposed) and not _is_held_out(i * nodes + c, held_out, first, last):
                count += 1
                weight = values[e] if len(values) else one
                total += weight
                least = min(least, weight)
        counts[k] = count + (not loop)
        sums[k] = total if loop else total + loop_weight
        # As columns are in order, the last one is the largest. A sum has what is not finite.
        wrong[k] = before >= nodes or least < 0 or not total < np.inf


@_compiled()
def fill_rows(indptr, columns, values, rule, rows, begin, to, weights, low, high):
    """``fill_kept`` of a graph's edges, to which self-loops are added in their order; without values edges weigh 1."""
    a, b, thresholds, _, pairs, transposed, held_out, loop_weight = rule
    nodes, one = len(indptr) - 1, np.float32(1)
    for k in range(low, high):
        i, n, loop = rows[k], begin[k], False
        first, last = np.searchsorted(held_out, i * nodes), np.searchsorted(held_out, (i + 1) * nodes)
        for e in range(indptr[i], indptr[i + 1]):
            c = columns[e]
            if c > i and not loop:
                to[n], weights[n] = i, loop_weight
                n += 1
            loop = loop or c >= i
            if _kept(i, c, a, b, thresholds[0], pairs, transposed) and not _is_held_out(i * nodes + c, held_out, first, last):
                to[n], weights[n] = c, values[e] if len(values) else one
                n += 1
        if not loop:
            to[n], weights[n] = i, loop_weight


@_compiled()
def take_neighbors(indptr, columns, values, rows, bound, taken, weights, low, high):
    """Which entries of each of these rows are taken, and their values times ``Neighbors.weights``."""
    a, b, most = bound
    for k in range(low, high):
        i, n = rows[k], 0
        for e in range(indptr[k], indptr[k + 1]):
            n += columns[e] != i
        step, at = min(n, most), np.int64(_draw(a, b, i, 0)) % max(n, 1)
        for e in range(indptr[k], indptr[k + 1]):
            taken[e], weights[e] = True, values[e]
            if columns[e] != i:
                taken[e] = at >= n - step
                weights[e] *= np.float32(n / step)
                at += step - n * taken[e]


@_compiled()
def scale_entries(indptr, columns, values, scale, to, low, high):
    """Entries times the scale of their row and of their column."""
    for i in range(low, high):
        for e in range(indptr[i], indptr[i + 1]):
            to[e] = scale[i] * values[e] * scale[columns[e]]


@_compiled()
def number_columns(columns, place, nodes, count):
    """Replace nodes by their places in a list of ``count`` nodes, to which those without a place (-1) are added."""
    for e in range(len(columns)):
        node = columns[e]
        if place[node] < 0:
            place[node] = count
            nodes[count] = node
            count += 1
        columns[e] = place[node]
    return count


@_compiled()
def copy_rows(source, rows, places, out, exponent, wrong, low, high):
    """Copy rows of a matrix to places of another; those are ``wrong`` that have a number with all bits of the exponent."""
    for i in range(low, high):
        row, to, is_wrong = source[rows[i]], out[places[i]], False
        for j in range(len(row)):
            to[j] = row[j]
            is_wrong |= (row[j] & exponent) == exponent
        wrong[i] = is_wrong and exponent != 0


def _wide(x):
    """A number of a row in float32; where it is in bfloat16, given as its bits."""


@numba.extending.overload(_wide)
def _overload_wide(x):
    if isinstance(x, numba.types.Float):
        return lambda x: x
    return lambda x: np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)


def _above(x, floor):
    """``floor`` where x is not above it; x itself if that is None, and where x is a NaN."""


@numba.extending.overload(_above)
def _overload_above(x, floor):
    if isinstance(floor, numba.types.NoneType):
        return lambda x, floor: x
    return lambda x, floor: floor if x <= floor else x


@_compiled()
def _add(columns, values, e, end, h, floor, o):
    """Add to one row the rows of h that its entries point to, with numbers of at least ``floor``, each times its value."""
    width = h.shape[1]
    while e + 4 <= end:
        u, v, w, x = values[e], values[e + 1], values[e + 2], values[e + 3]
        p, q, r, s = h[columns[e]], h[columns[e + 1]], h[columns[e + 2]], h[columns[e + 3]]
        for k in range(width):
            two = u * _above(_wide(p[k]), floor) + v * _above(_wide(q[k]), floor)
            o[k] += two + w * _above(_wide(r[k]), floor) + x * _above(_wide(s[k]), floor)
        e += 4
    while e < end:
        u, p = values[e], h[columns[e]]
        for k in range(width):
            o[k] += u * _above(_wide(p[k]), floor)
        e += 1


@_compiled()
def multiply(indptr, columns, values, h, relu, bias, mask, out, low, high):
    """Rows of S f(h) + bias, f being ReLU or the identity; zero where ``mask``, if not empty, is not above zero."""
    width = h.shape[1]
    zero = np.float32(0)
    for i in range(low, high):
        o = out[i]
        for k in range(width):
            o[k] = bias[k]
        if relu:
            _add(columns, values, indptr[i], indptr[i + 1], h, zero, o)
        else:
            _add(columns, values, indptr[i], indptr[i + 1], h, None, o)
        if len(mask):
            above = mask[i]
            for k in range(width):
                o[k] = o[k] if _wide(above[k]) > zero else zero


@_compiled()
def multiply_columns(indptr, columns, values, factor, h, bias, out, low, high):
    """Rows of S D h + bias for a diagonal D; entries whose factor is zero are skipped."""
    room = 0
    for i in range(low, high):
        room = max(room, indptr[i + 1] - indptr[i])
    to, weights = np.empty(room, np.int32), np.empty(room, np.float32)
    for i in range(low, high):
        n = np.int64(0)
        for e in range(indptr[i], indptr[i + 1]):
            if factor[columns[e]] != 0:
                to[n] = columns[e]
                weights[n] = values[e] * factor[columns[e]]
                n += 1
        o = out[i]
        for k in range(h.shape[1]):
            o[k] = bias[k]
        _add(to, weights, np.int64(0), n, h, None, o)


@_compiled()
def multiply_rows(indptr, columns, values, factor, h, out, low, high):
    """Rows of D S h for a diagonal D; rows whose factor is zero are not computed."""
    for i in range(low, high):
        o = out[i]
        for k in range(h.shape[1]):
            o[k] = 0
        if factor[i] != 0:
            _add(columns, values, indptr[i], indptr[i + 1], h, None, o)
            if factor[i] != 1:
                for k in range(h.shape[1]):
                    o[k] *= factor[i]

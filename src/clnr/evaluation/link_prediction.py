"""Link prediction on held-out edges: an evaluation that needs no labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.evaluation.held_out import HeldOutPairs
from clnr.graph.csr import Array
from clnr.graph.kind_rows import KindScale, sparse_unit, unit
from clnr.nn.ranking import average_precision, roc_auc

_BLOCK_PAIRS = 1 << 16


def link_cosines(rows: Any, held: HeldOutPairs) -> Array:
    """The cosine similarity of each held-out pair, then of each non-edge, of unit rows: a tensor or a sparse matrix.

    Where nodes are of several kinds, it is that of ``kind_cosines``, and rows may be of any length.
    """
    pairs = np.concatenate([held.positives, held.negatives], axis=1)
    if held.kinds is None:
        return _by_blocks(lambda a, b: _dots(rows[a], rows[b]), pairs)
    known = rows if sp.issparse(rows) else rows.float().numpy(force=True)
    nodes, neighbours = held.linked
    shape = len(held.kinds), len(held.kinds)
    linked = sp.csr_array((np.ones(len(nodes), np.float32), (nodes, neighbours)), shape=shape)
    return kind_cosines(known, pairs, held.kinds, linked)


def score_cosines(cosines: Array) -> dict[str, float]:
    """How well what ``link_cosines`` returns separates held-out edges from non-edges.

    The area under the ROC curve and average precision; 0.5 is chance for both, since there are as many of each.
    """
    truth = np.repeat([True, False], len(cosines) // 2)
    return {"auc": roc_auc(truth, cosines), "average_precision": average_precision(truth, cosines)}


def kind_cosines(rows: Any, pairs: Array, kinds: Array, neighbours: Any) -> Array:
    """How similar the two nodes of each pair, [2, n], are, which may be of different kinds, numbered from 0 on.

    Of one kind: the cosine of their standardised rows. Of two: the mean of two cosines, each of one node and the
    neighbours of the other that are of its own kind; 0 in place of one where there are no such neighbours. Rows are
    those of all nodes: an array, or a sparse matrix, whose columns are not standardised. Neighbours, in either
    direction, are a CSR matrix.
    """
    c = standardised(rows, kinds) if isinstance(rows, np.ndarray) else sparse_unit(rows)

    def cosines(a: Array, b: Array) -> Array:
        there, back = (_dots(_mean_neighbour(c, x, kinds[y], kinds, neighbours), c[y]) for x, y in ((a, b), (b, a)))
        return np.where(kinds[a] == kinds[b], _dots(c[a], c[b]), (there + back) / 2)

    return _by_blocks(cosines, pairs)


def standardised(rows: Array, kinds: Array) -> Array:
    """Rows whose columns are standardised over the nodes of each kind, scaled to length 1."""
    result = np.empty(rows.shape, np.float32)
    for kind in np.unique(kinds):
        scale = KindScale(rows.shape[1])
        scale.add(rows[kinds == kind])
        result[kinds == kind] = scale.standardise(rows[kinds == kind])
    return result


def _mean_neighbour(c: Any, nodes: Array, wanted: Array, kinds: Array, neighbours: Any) -> Any:
    """For each of some nodes the direction of its neighbours of a wanted kind; zeros if it has none."""
    linked = sp.csr_array(neighbours[nodes])
    of_kind = kinds[linked.indices] == np.repeat(wanted, np.diff(linked.indptr))
    chosen = sp.csr_array((of_kind.astype(np.float32), linked.indices, linked.indptr), shape=linked.shape)
    means = chosen @ c
    return sparse_unit(means) if sp.issparse(means) else unit(means)


def _by_blocks(cosines: Callable[[Array, Array], Array], pairs: Array) -> Array:
    blocks = np.array_split(pairs, max(1, -(-pairs.shape[1] // _BLOCK_PAIRS)), axis=1)
    return np.concatenate([cosines(a, b) for a, b in blocks])


def _dots(x: Any, y: Any) -> Array:
    """The inner product of each row with the row beside it: of arrays, sparse matrices or tensors."""
    if isinstance(x, np.ndarray):
        return np.einsum("nd,nd->n", x, y).astype(np.float64)
    if sp.issparse(x):
        return np.asarray(x.multiply(y).sum(1), np.float64).ravel()
    return (x * y).sum(1).double().numpy(force=True)

"""Link prediction on held-out edges: an evaluation that needs no labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr.evaluation.held_out import HeldOutPairs
from clnr.graph.csr import Array
from clnr.graph.kind_rows import kind_cosines
from clnr.nn.ranking import average_precision, roc_auc

_BLOCK_PAIRS = 1 << 16


def link_cosines(rows: Any, held: HeldOutPairs) -> Array:
    """The cosine similarity of each held-out pair, then of each non-edge, of unit rows: a tensor or a sparse matrix.

    Where nodes are of several kinds, it is that of ``kind_cosines``, and rows may be of any length.
    """
    if held.kinds is not None:
        known = rows if sp.issparse(rows) else rows.float().numpy(force=True)
        both, (nodes, neighbours) = np.concatenate([held.positives, held.negatives], axis=1), held.linked
        shape = len(held.kinds), len(held.kinds)
        linked = sp.csr_array((np.ones(len(nodes), np.float32), (nodes, neighbours)), shape=shape)
        return kind_cosines(known, both, held.kinds, linked)
    return np.concatenate([_cosines(rows, pairs) for pairs in (held.positives, held.negatives)])


def score_cosines(cosines: Array) -> dict[str, float]:
    """How well what ``link_cosines`` returns separates held-out edges from non-edges.

    The area under the ROC curve and average precision; 0.5 is chance for both, since there are as many of each.
    """
    truth = np.repeat([True, False], len(cosines) // 2)
    return {"auc": roc_auc(truth, cosines), "average_precision": average_precision(truth, cosines)}


def _cosines(rows: Any, pairs: Array) -> Array:
    if sp.issparse(rows):
        blocks = np.array_split(pairs, -(-pairs.shape[1] // _BLOCK_PAIRS), axis=1)
        return np.concatenate([np.asarray(rows[a].multiply(rows[b]).sum(1), np.float64).ravel() for a, b in blocks])
    blocks = torch.tensor(pairs, device=rows.device).split(_BLOCK_PAIRS, 1)
    return torch.cat([(rows[a] * rows[b]).sum(1) for a, b in blocks]).double().cpu().numpy()

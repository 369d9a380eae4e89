"""Personalised PageRank of all nodes as one sparse matrix, with a bound on its error."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from clnr.graph import Graph

_BLOCK_ROWS = 4096


def personalised_pagerank(graph: Graph, alpha: float, error: float) -> sp.csr_array:
    r""":math:`S = \alpha (I - (1 - \alpha) \hat A)^{-1}` with :math:`\hat A = D^{-1/2} (A + I) D^{-1/2}`, approximately.

    :math:`S = D^{1/2} P D^{-1/2}`, where row i of P is the distribution of the end of a walk from i that follows an edge
    with probability :math:`1 - \alpha` and else stops. Row by row, mass is pushed along edges where it exceeds ``error``
    times the degree (Andersen, Chung and Lang, "Local graph partitioning using PageRank vectors", 2006), here for all walks
    of a block of rows at once. The mass that is left is never negative, so that

    .. math:: 0 \le P_{ij} - p_{ij} \le \epsilon d_j, \qquad 0 \le S_{ij} - s_{ij} \le \epsilon \sqrt{d_i d_j}

    on an undirected graph; and besides its own node a row holds no more than :math:`(1 - \alpha) / (\alpha \epsilon)` entries,
    counted by degree. No N x N matrix is ever formed.

    Args:
        graph: Row i of the walk has the in-neighbours of node i.
        alpha: The probability that a walk stops at each step.
        error: Epsilon.
    """
    count = graph.num_nodes
    links = graph.to_scipy().T.tocsr().astype(np.float64)
    links = links + sp.diags_array((links.diagonal() == 0).astype(np.float64), format="csr")
    degree = np.asarray(links.sum(1)).reshape(-1)
    walk = (sp.diags_array(1 / degree) @ links).tocsr()
    blocks = [_push(walk, degree, range(i, min(i + _BLOCK_ROWS, count)), alpha, error) for i in range(0, count, _BLOCK_ROWS)]
    p = sp.vstack(blocks, format="csr") if blocks else sp.csr_array((0, 0))
    root = np.sqrt(degree)
    s = (sp.diags_array(root) @ p @ sp.diags_array(1 / root)).tocsr().astype(np.float32)
    s.sort_indices()
    return s


def columns_to_one(matrix: sp.csr_array) -> sp.csr_array:
    """A matrix without negative entries, each column divided by its largest."""
    largest = matrix.max(axis=0).toarray().reshape(-1)
    return (matrix @ sp.diags_array(1 / np.where(largest > 0, largest, 1))).tocsr().astype(matrix.dtype)


def _push(walk: sp.csr_array, degree: np.ndarray, rows: range, alpha: float, error: float) -> sp.csr_array:
    shape = (len(rows), len(degree))
    mass = sp.csr_array((np.ones(len(rows)), (np.arange(len(rows)), np.array(rows))), shape=shape)
    settled = sp.csr_array(shape)
    # The first push is always made, so that not even a hub's row is empty.
    active = mass
    while active.nnz:
        settled = settled + alpha * active
        mass = mass - active + (1 - alpha) * (active @ walk)
        mass.eliminate_zeros()
        active = mass.copy()
        active.data[active.data <= error * degree[active.indices]] = 0
        active.eliminate_zeros()
    return settled

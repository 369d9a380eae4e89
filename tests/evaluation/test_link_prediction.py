from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clnr.engine import unit_rows
from clnr.evaluation import HeldOutPairs, hold_out, link_cosines, link_prediction, score_cosines
from tests.conftest import tiny


def test_scores_are_those_of_all_comparisons():
    rows = unit_rows(torch.randn(30, 4, generator=torch.Generator().manual_seed(0)))
    held = HeldOutPairs(np.arange(20).reshape(2, 10), np.arange(10, 30).reshape(2, 10))
    cosine = (rows @ rows.T).numpy().astype(float)
    yes, no = (np.array([cosine[a, b] for a, b in part.T]) for part in (held.positives, held.negatives))
    auc = np.mean([(a > b) + 0.5 * (a == b) for a in yes for b in no])
    precision = np.mean([(yes >= a).sum() / (np.r_[yes, no] >= a).sum() for a in yes])
    expected = {"auc": auc, "average_precision": precision}
    assert score_cosines(link_cosines(rows, held)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("block", [3, 1 << 16])
def test_sparse_rows_have_the_same_cosines(block, monkeypatch):
    monkeypatch.setattr(link_prediction, "_BLOCK_PAIRS", block)
    graph = tiny(sparse=True)
    held = hold_out(graph, 0.3, 0)
    dense = unit_rows(torch.tensor(graph.features.toarray()))
    np.testing.assert_allclose(link_cosines(sp.csr_array(dense.numpy()), held), link_cosines(dense, held), atol=1e-6)

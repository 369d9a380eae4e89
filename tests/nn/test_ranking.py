"""Ranks and scores by rank, against SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn import metrics

from clnr.nn.ranking import average_precision, mean_ranks, roc_auc


@pytest.mark.parametrize("levels", [2, 5, 10**9])
@pytest.mark.parametrize(("count", "true"), [(2, 1), (9, 1), (9, 8), (500, 100)])
def test_scores_by_rank(levels, count, true):
    generator = np.random.default_rng(count + levels)
    scores = generator.integers(levels, size=count) / levels - 0.5
    truth = generator.permutation(count) < true
    assert (mean_ranks(scores) == rankdata(scores)).all()
    assert roc_auc(truth, scores) == pytest.approx(metrics.roc_auc_score(truth, scores), rel=1e-14)
    assert average_precision(truth, scores) == pytest.approx(metrics.average_precision_score(truth, scores), rel=1e-14)

"""Leave-one-out predictions are those of as many fits as there are nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from clnr.evaluation.ridge import PENALTIES, leave_one_out


def by_fits(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One fit of scikit-learn for each node and penalty; the penalty of least squared error."""
    x = rows - rows.mean(0)
    x /= np.sqrt((x**2).sum(1).mean())
    truth = np.eye(labels.max() + 1)[labels]
    best, least = truth, np.inf
    for penalty in PENALTIES:
        guesses = np.empty_like(truth)
        for node in range(len(x)):
            others = np.delete(np.arange(len(x)), node)
            guesses[node] = Ridge(penalty).fit(x[others], truth[others]).predict(x[node : node + 1])
        error = ((guesses - truth) ** 2).sum()
        best, least = (guesses, error) if error < least else (best, least)
    return best.argmax(1) == labels


@pytest.mark.parametrize(("nodes", "columns", "classes"), [(60, 5, 2), (40, 12, 4), (20, 50, 3), (9, 9, 3)])
def test_each_node_is_predicted_without_itself(nodes, columns, classes):
    random = np.random.default_rng(nodes)
    labels = np.arange(nodes) % classes
    rows = random.normal(size=(nodes, columns)) + random.normal(size=(classes, columns))[labels]
    found = leave_one_out(torch.from_numpy(rows), torch.from_numpy(labels)).numpy()
    np.testing.assert_array_equal(found, by_fits(rows, labels))


def test_rows_that_are_all_equal_predict_the_majority():
    found = leave_one_out(torch.ones(10, 3), torch.tensor([0] * 7 + [1] * 3))
    assert found.tolist() == [True] * 7 + [False] * 3

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from clnr.evaluation.class_scores import class_scores, macro_f1

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_macro_f1_is_that_of_scikit_learn(classes):
    for _ in range(20):
        truth, guesses = RNG.integers(0, classes, (2, 12))
        assert macro_f1(truth, guesses) == pytest.approx(metrics.f1_score(truth, guesses, average="macro"))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_of_two_classes_the_rarer_one_is_looked_for(share):
    truth = np.where(RNG.random(200) < share, 7, 3)
    margins = np.round(RNG.normal(size=200) + (truth == 7), 1)
    found = class_scores(truth, np.where(margins > 0, 7, 3), np.array([3, 7]), margins)
    rarer = 7 if 2 * (truth == 7).sum() <= 200 else 3
    likely = margins if rarer == 7 else -margins
    assert found["accuracy"] == pytest.approx(100 * metrics.accuracy_score(truth, np.where(margins > 0, 7, 3)))
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(truth == rarer, likely))
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(truth == rarer, likely))


@pytest.mark.parametrize(
    ("truth", "classes"),
    [([0, 1, 2, 0], [0, 1, 2]), ([0, 0, 0, 0], [0, 1]), ([0, 1, 2, 0], [0, 1])],
    ids=["three classes", "nodes of one", "a node of another class"],
)
def test_what_is_not_two_classes_has_no_roc_auc(truth, classes):
    found = class_scores(np.array(truth), np.zeros(4, int), np.array(classes), np.zeros(4))
    assert found.keys() == {"accuracy", "macro_f1"}

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from clnr import rng
from clnr.errors import DataError
from clnr.evaluation import logistic_probe, logistic_regression, majority_accuracy
from clnr.graph import Split

N = 600
SPLIT = Split(np.arange(0, 150), np.arange(150, 300), np.arange(300, N))


def blobs(classes=4, width=20, spread=0.45, scales=None):
    """Noisy blobs whose columns have quite different means and scales."""
    random = np.random.default_rng(0)
    labels = random.integers(0, classes, N) * 3 + 1
    centres = random.standard_normal((labels.max() + 1, width)) * spread
    x = centres[labels] + random.standard_normal((N, width))
    return x * (10.0 ** random.uniform(-4, 2, width) if scales is None else scales) + 5, labels


def by_scikit_learn(x, labels, sparse=False):
    """Every scaling and penalty, fitted from scratch in float64: validation and test accuracy of each."""
    train, validation, test = SPLIT
    accuracies = {}
    for per_column in (True, False):
        scaler = StandardScaler(with_mean=not sparse).fit(x[train])
        if not per_column:
            scaler.scale_ = np.full(x.shape[1], np.sqrt(scaler.var_.mean()))
        for penalty in logistic_regression.PENALTIES:
            model = LogisticRegression(C=1 / (penalty * len(train)), max_iter=10_000)
            model.fit(scaler.transform(x[train]), labels[train])
            accuracies[per_column, penalty] = [
                100 * model.score(scaler.transform(x[nodes]), labels[nodes]) for nodes in (validation, test)
            ]
    return accuracies


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("sparse", [False, True])
def test_it_is_what_scikit_learn_gives_for_the_best_by_validation(classes, sparse):
    x, labels = blobs(classes)
    if sparse:
        x = sp.csr_array(np.where(np.random.default_rng(1).random(x.shape) < 0.3, x, 0))
    found = by_scikit_learn(x, labels, sparse)
    best = max(validation for validation, _ in found.values())
    made = logistic_probe(x, labels, SPLIT, 0)
    validation, test = found[made.per_column, made.penalty]
    # A node that lies on the border may fall on either side of it in float32.
    assert made.validation == pytest.approx(best, abs=0.7)
    assert made.validation == pytest.approx(validation, abs=0.7)
    assert made.scores["accuracy"] == pytest.approx(test, abs=0.7)
    assert made.scores["accuracy"] == 100 * made.correct.mean()
    assert len(made.correct) == len(SPLIT.test)
    assert made.converged


def test_the_scale_of_columns_does_not_matter_nor_does_that_of_all():
    x, labels = blobs(scales=np.ones(20))
    plain = logistic_probe(x, labels, SPLIT, 0)
    assert plain.scores["accuracy"] > 60
    for changed in (x * 1e-6, x * 1e6, x * 10.0 ** np.arange(-10, 10) + 3):
        assert logistic_probe(changed, labels, SPLIT, 0).scores["accuracy"] == pytest.approx(plain.scores["accuracy"], abs=5)


def test_one_scale_for_all_is_chosen_where_small_columns_are_noise():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, N)
    signal = np.eye(3)[labels] * 10 + random.standard_normal((N, 3))
    x = np.hstack([signal, 0.01 * random.standard_normal((N, 400))])
    made = logistic_probe(x, labels, SPLIT, 0)
    assert not made.per_column
    assert made.scores["accuracy"] > 99


def test_test_labels_are_not_read_before_the_choice():
    x, labels = blobs()
    made = logistic_probe(x, labels, SPLIT, 0)
    others = labels.copy()
    others[SPLIT.test] = np.roll(labels[SPLIT.test], 1)
    changed = logistic_probe(x, others, SPLIT, 0)
    assert changed[1:5] == made[1:5]
    assert changed.scores["accuracy"] < made.scores["accuracy"]


def test_a_class_that_no_training_node_has_is_never_guessed():
    x, labels = blobs()
    labels = np.where(np.isin(np.arange(N), SPLIT.test[:50]), 99, labels)
    assert not logistic_probe(x, labels, SPLIT, 0).correct[:50].any()


def test_large_sets_are_drawn_from(monkeypatch):
    x, labels = blobs()
    monkeypatch.setattr(logistic_regression, "MOST_NODES", 60)
    assert len(logistic_regression.drawn(SPLIT.train, rng.key(0), 60)) == 60
    first, again, other = (logistic_probe(x, labels, SPLIT, seed) for seed in (0, 0, 1))
    assert first[:5] == again[:5]
    assert (first.correct != other.correct).any()


def test_one_class_is_refused():
    with pytest.raises(DataError, match="of one class"):
        logistic_probe(np.eye(N), np.zeros(N, int), SPLIT, 0)


def test_the_majority_is_of_the_test_nodes():
    labels = np.r_[np.zeros(300, int), np.repeat([1, 2, 3], [60, 150, 90])]
    assert majority_accuracy(labels, SPLIT) == 50

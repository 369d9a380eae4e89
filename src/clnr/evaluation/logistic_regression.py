"""Logistic regression on a frozen embedding, fitted until it converges: the linear probe for graphs of the user's own.

``linear_probe`` is the paper's probe: a fixed number of Adam steps on the columns as they are. Where a column's scale is
unlucky these are too few, and it understates the embedding. Here scikit-learn's solver converges, and validation nodes choose
both the penalty and the scaling of the columns, so that no embedding is judged by an accident of scale.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.errors import DataError
from clnr.graph import Split
from clnr.graph.csr import Array

MOST_NODES = 10_000
"""The most training nodes that it is fitted on, and the most validation nodes that it is chosen by; others are not drawn."""
MOST_ITERATIONS = 1000
PENALTIES = tuple(10.0**-power for power in range(6))
"""Weights of the squared norm beside the mean loss: scikit-learn's ``C`` is 1 / (penalty * training nodes)."""
_BLOCK_ROWS = 1 << 14


class LogisticProbe(NamedTuple):
    """A fitted probe: accuracies in percent on the test nodes, read once, and on the validation nodes, by which it was chosen.

    Then the chosen penalty, whether each column was scaled by its own deviation or all by one, whether the chosen fit
    converged, and which of the test nodes it classified correctly.
    """

    strict: float
    validation: float
    penalty: float
    per_column: bool
    converged: bool
    correct: Array


class _Classifier(NamedTuple):
    """Weights and biases of rows that are not scaled."""

    classes: Array
    weights: Array
    biases: Array

    def correct(self, rows: Any, labels: Array, nodes: Array) -> Array:
        """Which of some nodes are classified correctly."""
        parts = []
        for some in np.array_split(nodes, -(-len(nodes) // _BLOCK_ROWS)):
            logits = rows[some].astype(np.float64) @ self.weights + self.biases
            guess = logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).astype(np.int64)
            parts.append(self.classes[guess] == labels[some])
        return np.concatenate(parts)


def logistic_probe(rows: Any, labels: Array, split: Split, seed: int) -> LogisticProbe:
    """Fit multinomial logistic regression (L-BFGS) to the training nodes, for each scaling and penalty; choose by validation.

    Dense rows are centred by the mean of the training nodes; sparse rows are not, so that they stay sparse. Of equals, the
    first is chosen: each column scaled by its own deviation, the largest penalty. The seed draws the nodes if there are more
    than ``MOST_NODES``.
    """
    from threadpoolctl import threadpool_limits

    train, validation = (
        _drawn(nodes, seed, name) for nodes, name in ((split.train, "train"), (split.validation, "validation"))
    )
    if len(np.unique(labels[train])) < 2:
        raise DataError("the training nodes are of one class")
    rows = sp.csr_array(rows) if sp.issparse(rows) else np.asarray(rows)
    best = None
    # Threads that wait for each other take longer than one alone: the matrices are small.
    with threadpool_limits(1):
        for per_column in (True, False):
            for penalty, converged, classifier in _path(rows[train], labels[train], per_column):
                right = int(classifier.correct(rows, labels, validation).sum())
                if best is None or right > best[0]:
                    best = right, penalty, per_column, converged, classifier
        assert best is not None
        right, penalty, per_column, converged, classifier = best
        correct = classifier.correct(rows, labels, split.test)
    return LogisticProbe(
        strict=100 * int(correct.sum()) / len(correct),
        validation=100 * right / len(validation),
        penalty=penalty,
        per_column=per_column,
        converged=converged,
        correct=correct,
    )


def majority_accuracy(labels: Array, split: Split) -> float:
    """The share of the commonest class among the test nodes, in percent: what always guessing it would reach."""
    return 100 * int(np.unique(labels[split.test], return_counts=True)[1].max()) / len(split.test)


def _drawn(nodes: Array, seed: int, name: str) -> Array:
    if len(nodes) <= MOST_NODES:
        return nodes
    drawn = rng.permute(rng.key(seed, "probe", name), torch.arange(MOST_NODES), len(nodes))
    return nodes[np.sort(drawn.numpy())]


def _path(rows: Any, labels: Array, per_column: bool) -> Iterator[tuple[float, bool, _Classifier]]:
    """For each penalty from the largest on: itself, whether the fit converged, and the classifier."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not sp.issparse(rows)).fit(rows)
    scale = scaler.scale_ if per_column else np.full(len(scaler.scale_), np.sqrt(scaler.var_.mean()) or 1.0)
    if sp.issparse(rows):
        centre, scaled = np.zeros(len(scale)), (rows @ sp.diags_array(1 / scale)).astype(np.float32)
    else:
        centre, scaled = scaler.mean_, ((rows.astype(np.float64) - scaler.mean_) / scale).astype(np.float32)
    model = LogisticRegression(max_iter=MOST_ITERATIONS, warm_start=True)
    for penalty in PENALTIES:
        model.set_params(C=1 / (penalty * len(labels)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(scaled, labels)
        weights = model.coef_.T / scale[:, None]
        converged = not any(issubclass(each.category, ConvergenceWarning) for each in caught)
        yield penalty, converged, _Classifier(model.classes_, weights, model.intercept_ - centre @ weights)

"""Scores of a classifier beside its accuracy, which says little where classes are rare, or where there are two."""

from __future__ import annotations

import numpy as np

from clnr.graph.csr import Array
from clnr.nn.ranking import average_precision, roc_auc


def class_scores(truth: Array, guesses: Array, classes: Array, margins: Array) -> dict[str, float]:
    """Accuracy and macro-F1 in percent; of two classes also ROC AUC, and the average precision of the rarer one.

    ``classes`` are those that may be guessed. Of two, ``margins`` are the larger, the likelier is the second. Where nodes are
    not of both, and of no other, there is neither ROC AUC nor average precision.
    """
    scores = {"accuracy": 100 * float((guesses == truth).mean()), "macro_f1": 100 * macro_f1(truth, guesses)}
    counts = [int((truth == each).sum()) for each in classes[:2]]
    if len(classes) == 2 and all(counts) and sum(counts) == len(truth):
        is_rarer, likely = (truth == classes[1], margins) if counts[1] <= counts[0] else (truth == classes[0], -margins)
        scores |= {"roc_auc": roc_auc(is_rarer, likely), "average_precision": average_precision(is_rarer, likely)}
    return scores


def macro_f1(truth: Array, guesses: Array) -> float:
    """The mean of F1 over all classes that are true or guessed: the harmonic mean of precision and recall."""
    classes, index = np.unique(np.concatenate([truth, guesses]), return_inverse=True)
    both = np.bincount(index)
    right = np.bincount(index[: len(truth)][truth == guesses], minlength=len(classes))
    return float((2 * right / both).mean())

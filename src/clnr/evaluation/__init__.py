"""Evaluation of frozen embeddings, and significance tests."""

from __future__ import annotations

from clnr.evaluation.held_out import HeldOutPairs, hold_out, without_pairs
from clnr.evaluation.linear_probe import Probe, Task, predictions, probes
from clnr.evaluation.link_prediction import link_cosines, score_cosines
from clnr.evaluation.logistic_regression import logistic_probe, majority_accuracy
from clnr.evaluation.significance import accuracy_error, auc_error, holm, wilcoxon

__all__ = ["HeldOutPairs", "Probe", "Task", "accuracy_error", "auc_error", "hold_out", "holm", "link_cosines"]
__all__ += ["logistic_probe", "majority_accuracy", "predictions", "probes", "score_cosines", "wilcoxon", "without_pairs"]

"""Evaluation of frozen embeddings, and significance tests."""

from __future__ import annotations

from clnr.evaluation.held_out import HeldOutPairs, hold_out, without_pairs
from clnr.evaluation.linear_probe import Probe, Task, predictions, probe, probes
from clnr.evaluation.link_prediction import link_cosines, score_cosines
from clnr.evaluation.logistic_regression import LogisticProbe, logistic_probe, majority_accuracy
from clnr.evaluation.significance import accuracy_error, auc_error, holm, wilcoxon

__all__ = ["HeldOutPairs", "LogisticProbe", "Probe", "Task", "accuracy_error", "auc_error", "hold_out", "holm"]
__all__ += ["link_cosines", "logistic_probe", "majority_accuracy", "predictions", "probe", "probes"]
__all__ += ["score_cosines", "wilcoxon", "without_pairs"]

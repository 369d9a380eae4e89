"""Evaluation of frozen embeddings, and significance tests."""

from __future__ import annotations

from clnr.evaluation.clustering import clusters
from clnr.evaluation.linear_probe import Probe, Task, predictions, probe, probes
from clnr.evaluation.link_prediction import LinkSplit, hold_out, link_scores
from clnr.evaluation.logistic_regression import LogisticProbe, logistic_probe, majority_accuracy
from clnr.evaluation.significance import holm, wilcoxon

__all__ = [
    "LinkSplit",
    "LogisticProbe",
    "Probe",
    "Task",
    "clusters",
    "hold_out",
    "holm",
    "link_scores",
    "logistic_probe",
    "majority_accuracy",
    "predictions",
    "probe",
    "probes",
    "wilcoxon",
]

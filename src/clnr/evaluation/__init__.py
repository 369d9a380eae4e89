"""Evaluation of frozen embeddings, and significance tests."""
# ruff: noqa: F401

from __future__ import annotations

from clnr.evaluation.geometry import clusters
from clnr.evaluation.linear_probe import Probe, Task, predictions, probe, probes
from clnr.evaluation.link_prediction import LinkSplit, hold_out, link_cosines, score_cosines
from clnr.evaluation.logistic_regression import LogisticProbe, logistic_probe, majority_accuracy
from clnr.evaluation.significance import accuracy_error, auc_error, holm, wilcoxon

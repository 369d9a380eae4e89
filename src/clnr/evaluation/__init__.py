"""Evaluation of frozen embeddings, and significance tests."""

from __future__ import annotations

from clnr.evaluation.clustering import clusters
from clnr.evaluation.linear_probe import Probe, Task, predictions, probe, probes
from clnr.evaluation.link_prediction import LinkSplit, hold_out, link_scores
from clnr.evaluation.significance import holm, wilcoxon

__all__ = [
    "LinkSplit",
    "Probe",
    "Task",
    "clusters",
    "hold_out",
    "holm",
    "link_scores",
    "predictions",
    "probe",
    "probes",
    "wilcoxon",
]

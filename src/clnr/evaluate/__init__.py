"""Judging frozen embeddings, and comparing what was judged."""

from __future__ import annotations

from clnr.evaluate.clusters import clusters
from clnr.evaluate.linear import Probe, Task, predictions, probe, probes
from clnr.evaluate.paired import holm, wilcoxon

__all__ = ["Probe", "Task", "clusters", "holm", "predictions", "probe", "probes", "wilcoxon"]

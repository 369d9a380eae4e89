"""Judging frozen embeddings, and comparing what was judged."""

from __future__ import annotations

from clnr.evaluate.clusters import clusters
from clnr.evaluate.linear import Probe, Task, predictions, probe, probes
from clnr.evaluate.links import Held, hold_out, link_scores
from clnr.evaluate.paired import holm, wilcoxon

__all__ = ["Held", "Probe", "Task", "clusters", "hold_out", "holm", "link_scores", "predictions", "probe", "probes", "wilcoxon"]

"""Judging frozen embeddings, and comparing what was judged."""

from __future__ import annotations

from clnr.evaluate.linear import Probe, predictions, probe
from clnr.evaluate.paired import holm, wilcoxon

__all__ = ["Probe", "holm", "predictions", "probe", "wilcoxon"]

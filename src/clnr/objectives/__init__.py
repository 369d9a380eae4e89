"""Objectives: from the postprocessed views of one epoch to a number that falls."""

from __future__ import annotations

from clnr.objectives.base import SOME, Lesson, Moment, Objective
from clnr.objectives.bootstrap import Bootstrap
from clnr.objectives.cca import CCA
from clnr.objectives.infomax import Infomax
from clnr.objectives.ntxent import NTXent
from clnr.objectives.reconstruct import Reconstruct, Variational
from clnr.objectives.supervised import CrossEntropy

__all__ = [
    "CCA",
    "SOME",
    "Bootstrap",
    "CrossEntropy",
    "Infomax",
    "Lesson",
    "Moment",
    "NTXent",
    "Objective",
    "Reconstruct",
    "Variational",
]

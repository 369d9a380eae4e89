"""Objectives: from the postprocessed views of one epoch to a loss."""

from __future__ import annotations

from clnr.nn.objectives.bootstrap import Bootstrap
from clnr.nn.objectives.cca import CCA
from clnr.nn.objectives.infomax import Infomax
from clnr.nn.objectives.ntxent import NTXent
from clnr.nn.objectives.objective import SOME, Objective, SampledObjective, StepContext, Supervision
from clnr.nn.objectives.reconstruct import Reconstruct, Variational
from clnr.nn.objectives.supervised import CrossEntropy

__all__ = [
    "CCA",
    "SOME",
    "Bootstrap",
    "CrossEntropy",
    "Infomax",
    "NTXent",
    "Objective",
    "Reconstruct",
    "SampledObjective",
    "StepContext",
    "Supervision",
    "Variational",
]

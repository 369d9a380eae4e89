"""Objectives: from the postprocessed views of one epoch to a loss."""

from __future__ import annotations

from clnr.nn.objectives.agreement import CCA, Bootstrap
from clnr.nn.objectives.contrast import Infomax, NTXent
from clnr.nn.objectives.objective import SOME, Objective, SampledObjective, StepContext, Supervision
from clnr.nn.objectives.prediction import CrossEntropy, Reconstruct, Variational

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

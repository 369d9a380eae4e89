"""Objectives: from the postprocessed views of one epoch to a loss."""

from __future__ import annotations

from clnr.nn.objectives.losses import CCA, Bootstrap, CrossEntropy, Infomax, NTXent, Reconstruct, Variational
from clnr.nn.objectives.objective import SOME, Objective, SampledObjective, StepContext, Supervision

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

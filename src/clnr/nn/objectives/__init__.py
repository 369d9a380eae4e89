"""Objectives: from the postprocessed views of one epoch to a loss."""
# ruff: noqa: F401

from __future__ import annotations

from clnr.nn.objectives.losses import CCA, Bootstrap, CrossEntropy, Infomax, NTXent, Reconstruct, Variational
from clnr.nn.objectives.objective import SOME, Objective, SampledObjective, StepContext, Supervision

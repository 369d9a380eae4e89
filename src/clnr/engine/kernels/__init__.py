"""Triton kernels for the hot operations; to be imported only where Triton is."""

from __future__ import annotations

from clnr.engine.kernels.columns import (
    affine_back,
    affine_moments,
    centred,
    column_sums,
    standardised,
    standardised_back,
)
from clnr.engine.kernels.contrast import contrast
from clnr.engine.kernels.elements import masked_weight, unit_rows
from clnr.engine.kernels.product import multiply, thinned
from clnr.engine.kernels.stream import Dropped
from clnr.engine.kernels.structure import Structure, prepare

__all__ = [
    "Dropped",
    "Structure",
    "affine_back",
    "affine_moments",
    "centred",
    "column_sums",
    "contrast",
    "masked_weight",
    "multiply",
    "prepare",
    "standardised",
    "standardised_back",
    "thinned",
    "unit_rows",
]

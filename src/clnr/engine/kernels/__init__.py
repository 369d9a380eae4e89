"""Triton kernels for the hot operations; to be imported only where Triton is."""

from __future__ import annotations

from clnr.engine.kernels.contrast import contrast
from clnr.engine.kernels.elements import masked_weight, unit_rows
from clnr.engine.kernels.gram import gram
from clnr.engine.kernels.product import degrees, multiply
from clnr.engine.kernels.stream import Dropped
from clnr.engine.kernels.structure import Structure, prepare

__all__ = [
    "Dropped",
    "Structure",
    "contrast",
    "degrees",
    "gram",
    "masked_weight",
    "multiply",
    "prepare",
    "unit_rows",
]

"""Triton kernels for the hot operations; to be imported only where Triton is."""

from __future__ import annotations

from clnr.engine.triton.column_stats import (
    affine_back,
    affine_moments,
    centred,
    column_sums,
    standardised,
    standardised_back,
)
from clnr.engine.triton.counter_rng import Dropped
from clnr.engine.triton.csr_layout import Structure, prepare
from clnr.engine.triton.elementwise import masked_weight, unit_rows
from clnr.engine.triton.fused_ntxent import contrast
from clnr.engine.triton.spmm import multiply, thinned

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

"""Triton kernels for the hot operations; importing it needs Triton."""
# ruff: noqa: F401

from __future__ import annotations

from clnr.engine.gpu.triton.adam import adam
from clnr.engine.gpu.triton.bounded_rows import mark_columns, take_neighbors, transpose
from clnr.engine.gpu.triton.column_stats import (
    centred,
    column_sums,
    standardise,
    standardise_backward,
    standardised,
    standardised_backward,
)
from clnr.engine.gpu.triton.csr_layout import prepare
from clnr.engine.gpu.triton.fused_ntxent import nt_xent
from clnr.engine.gpu.triton.linear_moments import linear_moments, linear_moments_backward
from clnr.engine.gpu.triton.listed_rows import Places, inverse_roots, list_rows, number_nodes
from clnr.engine.gpu.triton.normalize_and_mask import masked_weight, unit_rows
from clnr.engine.gpu.triton.spmm import drop_entries, multiply

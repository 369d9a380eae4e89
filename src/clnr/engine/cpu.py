"""The CPU's engine: torch's multi-threaded row reduction, which beats its plain CSR product on every machine tried."""

from __future__ import annotations

import torch
from torch import Tensor

from clnr.engine.sparse import SparseEngine


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    return torch.sparse.mm(matrix, dense, "sum")


def cpu() -> SparseEngine:
    return SparseEngine("cpu", torch.device("cpu"), _multiply, dense_above=0.2)

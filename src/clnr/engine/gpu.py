"""The GPU's engine: cuSPARSE on a fixed structure."""

from __future__ import annotations

import torch
from torch import Tensor

from clnr.engine.sparse import SparseEngine


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    return matrix @ dense


def gpu() -> SparseEngine:
    return SparseEngine("gpu", torch.device("cuda", torch.cuda.current_device()), _multiply, dense_above=0.05)

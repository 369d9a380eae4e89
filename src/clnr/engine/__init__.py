"""Engines: the few hot operations on each device, behind one interface."""

from __future__ import annotations

import torch

from clnr.engine.base import Engine, Operators, unit_rows
from clnr.engine.cpu import cpu
from clnr.engine.cuda import gpu
from clnr.engine.dense import Dense
from clnr.engine.reference import Reference
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import capture, own_stream
from clnr.engine.view import DeviceGraph, Drop, Dropout, Mask, Neighbors, SlowNodes, View
from clnr.errors import DeviceError
from clnr.support.arguments import check_choice

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}

__all__ = [
    "DEVICES",
    "PRECISIONS",
    "Dense",
    "DeviceGraph",
    "Drop",
    "Dropout",
    "Engine",
    "Mask",
    "Neighbors",
    "Operators",
    "Reference",
    "SlowNodes",
    "SparseMatrix",
    "View",
    "capture",
    "choose",
    "cpu",
    "gpu",
    "own_stream",
    "to_sparse_matrix",
    "unit_rows",
]


def choose(device: str = "auto", precision: str = "auto") -> Engine:
    """The fastest engine for a device; ``auto`` is a GPU where there is one, and bfloat16 on a GPU that has it."""
    device, precision = check_choice("device", device, DEVICES), check_choice("precision", precision, PRECISIONS)
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        reason = "this PyTorch was built without CUDA" if torch.version.cuda is None else "PyTorch finds no usable GPU"
        raise DeviceError(f"device 'cuda' is not here: {reason}; use --device cpu, or auto")
    if has_cuda and device != "cpu":
        return gpu(PRECISIONS[precision])
    if precision == "bfloat16":
        raise DeviceError("bfloat16 is for GPUs; a CPU computes in float32; ask for that, or auto")
    return cpu()

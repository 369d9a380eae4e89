"""Engines: the few hot operations on each device, behind one interface."""

from __future__ import annotations

import torch

from clnr.engine.base import Engine, Operators, unit_rows
from clnr.engine.bfloat16 import bfloat16_pays, has_bfloat16
from clnr.engine.cpu import cpu
from clnr.engine.cuda import gpu
from clnr.engine.dense import Dense
from clnr.engine.reference import Reference
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import capture, own_stream
from clnr.engine.view import DeviceGraph, Drop, Dropout, Mask, Neighbors, SlowNodes, View
from clnr.errors import DeviceError
from clnr.support.arguments import check_choice, check_int

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


def choose(device: str = "auto", precision: str = "auto", threads: int | None = None) -> Engine:
    """The fastest engine for a device.

    Args:
        device: ``auto`` (a GPU where there is one), ``cpu`` or ``cuda``.
        precision: ``auto`` (bfloat16 on a GPU that has it, and on a CPU that is measurably faster in it), ``float32`` or
            ``bfloat16``.
        threads: How many threads of the CPU to take; None for as many as are worth it.
    """
    device, precision = check_choice("device", device, DEVICES), check_choice("precision", precision, PRECISIONS)
    if threads is not None and check_int("threads", threads) < 1:
        raise DeviceError(f"threads must be at least 1, not {threads}")
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        reason = "this PyTorch was built without CUDA" if torch.version.cuda is None else "PyTorch finds no usable GPU"
        raise DeviceError(f"device 'cuda' is not here: {reason}; use --device cpu, or auto")
    dtype = PRECISIONS[precision]
    if has_cuda and device != "cpu":
        engine = gpu(dtype)
    elif dtype == torch.bfloat16 and not has_bfloat16():
        raise DeviceError("this CPU cannot multiply bfloat16, and would be a hundred times slower; use float32, or auto")
    else:
        engine = cpu(dtype or (torch.bfloat16 if bfloat16_pays() else torch.float32))
    engine.threads = threads
    return engine

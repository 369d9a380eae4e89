"""Engines: the few hot operations on each device, behind one interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from clnr.engine.base import Asked, Engine, Operators, unit_rows
from clnr.engine.cpu.bfloat16 import has_bfloat16, preferred_dtype
from clnr.engine.cpu.cpu_engine import cpu_engine
from clnr.engine.cpu.threads import usable_threads
from clnr.engine.dense import Dense
from clnr.engine.gpu.cuda_engine import gpu_engine
from clnr.engine.reference import Reference
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import capture, own_stream
from clnr.engine.view import DeviceGraph, Drop, Dropout, Mask, Neighbors, View
from clnr.errors import DeviceError
from clnr.support.arguments import check_choice, check_int
from clnr.support.humanize import plural
from clnr.support.machine.processors import usable_processors

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}
# As many as processors would do, but a run on a larger machine is repeated with its number of threads. Thousands crash.
_MOST_THREADS = 256

__all__ = [
    "DEVICES",
    "PRECISIONS",
    "Asked",
    "Dense",
    "DeviceGraph",
    "Drop",
    "Dropout",
    "Engine",
    "Mask",
    "Neighbors",
    "Operators",
    "Reference",
    "SparseMatrix",
    "View",
    "capture",
    "choose",
    "choose_again",
    "cpu_engine",
    "gpu_engine",
    "own_stream",
    "to_sparse_matrix",
    "unit_rows",
]


def choose(device: str = "auto", precision: str = "auto", threads: int | None = None) -> Engine:
    """The fastest engine for a device.

    Args:
        device: ``auto`` (a GPU where there is one), ``cpu`` or ``cuda``.
        precision: ``auto`` (bfloat16 on a GPU that has it, and on a CPU with AMX), ``float32`` or ``bfloat16``.
        threads: How many threads of the CPU to take; None for as many as are worth it.
    """
    device, precision = check_choice("device", device, DEVICES), check_choice("precision", precision, PRECISIONS)
    if threads is not None and check_int("threads", threads) < 1:
        raise DeviceError(f"threads must be at least 1, not {threads}")
    if threads is not None and threads > (most := max(_MOST_THREADS, usable_processors())):
        raise DeviceError(
            f"threads must be at most {most}, not {threads:,} (--threads); this process may use "
            f"{plural(usable_processors(), 'processor')}, and further threads only wait for those"
        )
    asked = Asked(device, precision, threads)
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        reason = "this PyTorch was built without CUDA" if torch.version.cuda is None else "PyTorch finds no usable GPU"
        raise DeviceError(f"device 'cuda' is not here: {reason}; use --device cpu, or auto")
    dtype = PRECISIONS[precision]
    if has_cuda and device != "cpu":
        engine = gpu_engine(dtype)
    elif dtype == torch.bfloat16 != preferred_dtype() and not has_bfloat16():
        raise DeviceError("this CPU cannot multiply bfloat16, and would be a hundred times slower; use float32, or auto")
    else:
        engine = cpu_engine(dtype or preferred_dtype())
    engine.asked, engine.threads = asked, threads
    return engine


def choose_again(asked: Asked, begun: Mapping[str, Any], alone: bool = True) -> Engine:
    """The engine to resume a run with: as it was begun, except for what is asked for.

    Args:
        asked: What is asked for now.
        begun: The ``choices`` of the engine that it was begun with.
        alone: Whether one process does it. Where workers share it, each takes the threads that it has.
    """
    if asked.device not in ("auto", begun["device"]):
        return choose(*asked)
    precision = begun["precision"] if asked.precision == "auto" else asked.precision
    try:
        engine = choose(begun["device"], precision, begun["threads"] if asked.threads is None else asked.threads)
    except DeviceError as error:
        raise DeviceError(
            f"it was begun on {begun['device']} in {begun['precision']}, and goes on there alone: {error}; to start anew here, "
            "leave out --resume (resume=False)"
        ) from None
    engine.asked, most, here = asked, begun["most_threads"], usable_threads()
    if engine.threads is None and most is not None:
        if most > here and alone:
            raise DeviceError(
                f"it was begun with up to {most} threads, and there are {here} here: add --threads {here} (threads={here}); "
                "the result is as good, but its last bits differ"
            )
        engine.most_threads = most
    return engine

"""Which engine computes: the one place that knows all of them."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from clnr.engine.base import Engine
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.engine.cpu.csr_arrays import numba_kernels
from clnr.engine.cpu.threads import usable_threads
from clnr.engine.gpu.cuda_engine import KernelEngine
from clnr.engine.gpu.triton_dense import triton_kernels
from clnr.errors import DeviceError
from clnr.support.machine.devices import Asked, check_device, check_precision, check_threads

PRECISION_VARIABLE = "CLNR_PRECISION"
"""An environment variable: what ``auto`` is on a CPU, whatever the processor has."""
_CPUINFO = Path("/proc/cpuinfo")
_AMX_FLAG = "amx_bf16"
# As Linux calls what AMX, AVX-512 and ARM processors have.
_BFLOAT16_FLAGS = {_AMX_FLAG, "avx512_bf16", "bf16"}


def choose(device: str = "auto", precision: str = "auto", threads: int | None = None) -> Engine:
    """The fastest engine for a device.

    Args:
        device: ``auto`` (a GPU where there are one and Triton), ``cpu`` or ``cuda``.
        precision: ``auto`` (bfloat16 on a GPU that has it, and on a CPU with AMX), ``float32`` or ``bfloat16``.
        threads: How many threads of the CPU to take; None for as many as are worth it.
    """
    asked = Asked(check_device(device), check_precision(precision), check_threads(threads))
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        reason = "this PyTorch was built without CUDA" if torch.version.cuda is None else "PyTorch finds no usable GPU"
        raise DeviceError(f"device 'cuda' is not available: {reason}; choose cpu, or auto")
    dtype = None if precision == "auto" else getattr(torch, precision)
    uses_gpu = has_cuda and device != "cpu"
    if uses_gpu and device == "auto" and triton_kernels() is None:
        warnings.warn("Triton is not installed, so the GPU is not used; pip install triton", stacklevel=2)
        uses_gpu = False
    if uses_gpu:
        engine = gpu_engine(dtype)
    elif dtype == torch.bfloat16 != preferred_dtype() and not has_bfloat16():
        raise DeviceError("this CPU has no bfloat16 instructions, and would be a hundred times slower; use float32, or auto")
    else:
        engine = cpu_engine(dtype or preferred_dtype())
    engine.asked, engine.threads = asked, threads
    return engine


def choose_again(asked: Asked, begun: Mapping[str, Any], alone: bool = True) -> Engine:
    """The engine to resume a run with: as it was ``begun``, by the ``choices`` of its engine, except for what is asked for.

    Where workers share it, and it is not done ``alone``, each takes the threads that it has.
    """
    if asked.device not in ("auto", begun["device"]):
        return choose(*asked)
    precision = begun["precision"] if asked.precision == "auto" else asked.precision
    try:
        engine = choose(begun["device"], precision, begun["threads"] if asked.threads is None else asked.threads)
    except DeviceError as error:
        raise DeviceError(f"this run was started on {begun['device']} in {begun['precision']}: {error}") from None
    engine.asked, most, here = asked, begun["most_threads"], usable_threads()
    if engine.threads is None and most is not None:
        if most > here and alone:
            raise DeviceError(
                f"this run was started with up to {most} threads, and this machine has {here}: set threads to {here}; "
                "only the last bits of the result will differ"
            )
        engine.most_threads = most
    return engine


def preferred_dtype(cpuinfo: Path = _CPUINFO) -> torch.dtype:
    """What ``auto`` is on this CPU: bfloat16 if it has AMX, and torch the library that uses it (oneDNN); else float32.

    It is decided by what processor and torch have, never by the clock.
    """
    if forced := os.environ.get(PRECISION_VARIABLE):
        if forced not in ("float32", "bfloat16"):
            raise DeviceError(f"{PRECISION_VARIABLE} must be float32 or bfloat16, not '{forced}'")
        return getattr(torch, forced)
    has_amx = _AMX_FLAG in _flags(cpuinfo) and torch.backends.mkldnn.is_available()
    return torch.bfloat16 if has_amx else torch.float32


def has_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether the processor has instructions for products of bfloat16, as far as Linux or torch tells."""
    asked = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return bool(_flags(cpuinfo) & _BFLOAT16_FLAGS) or any(getattr(torch.cpu, name, bool)() for name in asked)


def _flags(cpuinfo: Path) -> set[str]:
    with contextlib.suppress(OSError):
        lines = cpuinfo.read_text().splitlines()
        return {word for line in lines if line.lower().startswith(("flags", "features")) for word in line.split()[2:]}
    return set()


def cpu_engine(dtype: torch.dtype = torch.float32) -> Engine:
    """The CPU engine: compiled loops."""
    numba_kernels()
    return CompiledEngine(dtype)


def gpu_engine(dtype: torch.dtype | None = None) -> Engine:
    """The GPU engine: Triton's kernels, by default in bfloat16 where the GPU has it."""
    if triton_kernels() is None:
        raise DeviceError("a GPU needs Triton, which is not installed: pip install triton; or choose cpu")
    device = torch.device("cuda", torch.cuda.current_device())
    return KernelEngine(device, dtype or (torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32))

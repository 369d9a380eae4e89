"""Which precision a CPU trains in: decided by what processor and torch have, never by the clock."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from clnr.engine.cpu.csr_arrays import numba_kernels
from clnr.errors import DeviceError

PRECISION_VARIABLE = "CLNR_PRECISION"
"""An environment variable: what ``auto`` is on a CPU, whatever the processor has."""
_CPUINFO = Path("/proc/cpuinfo")
_AMX_FLAG = "amx_bf16"
# As Linux calls what AMX, AVX-512 and ARM processors have.
_BFLOAT16_FLAGS = {_AMX_FLAG, "avx512_bf16", "bf16"}


def preferred_dtype(cpuinfo: Path = _CPUINFO) -> torch.dtype:
    """What ``auto`` is on this CPU: bfloat16 if it has AMX, and torch the library that uses it (oneDNN); else float32."""
    if forced := os.environ.get(PRECISION_VARIABLE):
        if forced not in ("float32", "bfloat16"):
            raise DeviceError(f"{PRECISION_VARIABLE} must be float32 or bfloat16, not '{forced}'")
        return getattr(torch, forced)
    has_amx = _AMX_FLAG in _flags(cpuinfo) and torch.backends.mkldnn.is_available()
    return torch.bfloat16 if has_amx and numba_kernels() is not None else torch.float32


def has_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether the processor has instructions for products of bfloat16, as far as Linux or torch tells."""
    asked = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return bool(_flags(cpuinfo) & _BFLOAT16_FLAGS) or any(getattr(torch.cpu, name, bool)() for name in asked)


def _flags(cpuinfo: Path) -> set[str]:
    with contextlib.suppress(OSError):
        lines = cpuinfo.read_text().splitlines()
        return {word for line in lines if line.lower().startswith(("flags", "features")) for word in line.split()[2:]}
    return set()

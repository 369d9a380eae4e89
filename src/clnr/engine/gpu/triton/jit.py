"""How kernels are compiled, and properties of the GPU that runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import triton

# For the interpreter: few processors, so that work is split there too.
_INTERPRETED_CHIP = (4, 64 << 10)


def kernel(*varying: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function; the arguments named here vary from call to call, and code is not specialised for their values."""
    return lambda function: triton.jit(function, do_not_specialize=list(varying))


@functools.cache
def chip(device: torch.device) -> tuple[int, int]:
    """How many multiprocessors a device has, and how many bytes of shared memory a program may use on each."""
    if device.type != "cuda":
        return _INTERPRETED_CHIP
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, getattr(properties, "shared_memory_per_block_optin", 64 << 10)


def blocks(count: int, size: int) -> int:
    """How many blocks of ``size`` cover ``count``."""
    return -(-count // size)


def power(count: int) -> int:
    """The least power of two not below ``count``, at least 16: the size of a block."""
    return max(16, 1 << max(count - 1, 0).bit_length())

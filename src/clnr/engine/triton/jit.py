"""How kernels are compiled, and what is asked of the chip that runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import triton

# What the interpreter pretends to have: few processors, so that work is split there too.
_PRETENDED = (4, 64 << 10)


def kernel(*varying: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function; of the arguments named, which vary from call to call, no value gets code of its own."""
    return lambda function: triton.jit(function, do_not_specialize=list(varying))


@functools.cache
def chip(device: torch.device) -> tuple[int, int]:
    """How many multiprocessors a device has, and how many bytes of shared memory a program may take on each."""
    if device.type != "cuda":
        return _PRETENDED
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, getattr(properties, "shared_memory_per_block_optin", 64 << 10)


def blocks(count: int, size: int) -> int:
    """How many blocks of a size cover a count."""
    return -(-count // size)


def power(count: int) -> int:
    """The least power of two that is no less, and at least 16: what a block may measure."""
    return max(16, 1 << max(count - 1, 0).bit_length())

"""Versions and hardware that a result was computed with."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from importlib import import_module
from pathlib import Path

import torch

from clnr.support.machine.code_digest import code_version
from clnr.version import __version__


@functools.cache
def versions() -> dict[str, str]:
    """The versions of clnr, Python and the libraries that compute."""
    of_libraries = libraries(torch.device("cpu" if torch.version.cuda is None else "cuda"))
    own = {"clnr": __version__, "code": code_version(), "python": platform.python_version()}
    return own | {name: version for name, version in of_libraries.items() if version is not None}


def describe(device: torch.device) -> str:
    """The hardware in a few words: the GPU, or the processor with cores and threads."""
    if device.type == "cuda":
        return hardware(device)
    return f"{hardware(device)}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def libraries(device: torch.device) -> dict[str, str | None]:
    """The versions of the libraries that compute on a device."""
    by_name = {name: str(import_module(name).__version__) for name in ("torch", "numpy", "scipy")}
    return {**by_name, "cuda": torch.version.cuda if device.type == "cuda" else None}


def hardware(device: torch.device) -> str:
    """The name of the GPU, or of the processor."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()


@functools.cache
def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

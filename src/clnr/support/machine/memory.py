"""Memory: how much is free, how much was used, and one error when it runs out.

By hand, as psutil's ``virtual_memory`` is that of the machine, whatever a cgroup leaves of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clnr.errors import OutOfMemory, option
from clnr.support.machine.processors import cgroups

if TYPE_CHECKING:
    import torch

# Memory limits of cgroups, by version: the file of the limit, that of what is used, the key of what can be freed.
_CGROUP_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def total_memory() -> int | None:
    """Bytes of main memory; None if the system does not tell."""
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that are free on a device, if the system tells; in main memory including what this process already uses."""
    import torch

    if device.type == "cuda":
        # What torch holds and nobody uses counts as used where the driver is asked.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + held
    unused = unused_memory(root)
    return total_memory() if unused is None else unused + (_amount(root / "proc/self/status", "RssAnon") or 0)


def unused_memory(root: Path = Path("/")) -> int | None:
    """Bytes of main memory that this process may still take, also by its cgroups; None if the system does not tell."""
    available = _amount(root / "proc/meminfo", "MemAvailable")
    bounds = [] if available is None else [available]
    for version, group in cgroups("memory", root):
        limit, usage, reclaimable = _CGROUP_FILES[version]
        with contextlib.suppress(OSError, ValueError):
            lines = (group / "memory.stat").read_text().splitlines()
            stat = {name: int(value) for name, value in map(str.split, lines)}
            most = int((group / limit).read_text())
            # Version 1 also lists limits of groups that are not visible.
            most = min(most, stat.get("hierarchical_memory_limit", most))
            bounds.append(most - int((group / usage).read_text()) + stat.get(reclaimable, 0))
    return max(0, min(bounds)) if bounds else None


def _amount(path: Path, name: str) -> int | None:
    """An amount in a file of the kernel, in bytes; None if it is not there."""
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def release_freed() -> None:
    """Give back to the system what was freed. By itself glibc keeps arrays of up to 32 MiB, however many there were."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # Of another system, or another library.
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Turn torch's out-of-memory errors into ``OutOfMemory``."""
    import torch

    try:
        yield
    except RuntimeError as error:
        # Within the capture of a CUDA graph, the error is the context of another one.
        if isinstance(error.__context__, torch.OutOfMemoryError):
            error = error.__context__
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        advice = f"a smaller hidden, dimension or sampled_nodes ({option('recipe')}) needs less"
        sentence = str(error).rpartition("DefaultCPUAllocator: ")[2].partition(". ")[0]
        raise OutOfMemory(f"out of memory: {sentence}; {advice}") from None


class MemoryMeter:
    """The peak memory since its creation: of the allocator on a GPU, else of the process, whose peak only Linux can reset."""

    def __init__(self, device: torch.device):
        import torch

        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")

    def peak(self) -> int:
        peaks = process_peaks(self._device)
        return peaks.get("device_peak_bytes", peaks["peak_bytes"])


def process_peaks(device: torch.device) -> dict[str, int]:
    """The peak of this process's memory and, if it computes on a GPU, of its memory there."""
    import torch

    gpu = {"device_peak_bytes": torch.cuda.max_memory_allocated(device)} if device.type == "cuda" else {}
    return {"peak_bytes": lifetime_peak(), **gpu}


def lifetime_peak() -> int:
    """The peak memory of the process; 0 if the system does not tell."""
    # What getrusage tells is also of the process that started this one.
    if (peak := _amount(Path("/proc/self/status"), "VmHWM")) is not None or sys.platform == "win32":
        return peak or 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

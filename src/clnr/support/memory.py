"""Memory: how much is free, how much a piece of work took, and one error for too little of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from clnr.errors import OutOfMemory


def total_memory() -> int | None:
    """Bytes of main memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


# Where groups of processes are bound in memory, by version: the folder, the bound, what is in use, what of that can be let go.
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that are free on a device, where the system tells; in main memory with what this process has of it already.

    On Linux that is within the bounds of the groups (cgroups) that the process is in, as in a container.

    Args:
        device: Which.
        root: Below which the system shows its state.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = [*_free_in_groups(root)]
    with contextlib.suppress(OSError, KeyError, ValueError):
        found.append(_kilobytes(root / "proc/meminfo")["MemAvailable"])
    if not found:
        return total_memory()
    own = 0
    with contextlib.suppress(OSError, KeyError, ValueError):
        own = _kilobytes(root / "proc/self/status")["RssAnon"]
    return max(0, min(found)) + own


def _kilobytes(path: Path) -> dict[str, int]:
    """Amounts by name, in bytes, as the kernel lists them."""
    words = [line.split() for line in path.read_text().splitlines()]
    return {each[0].rstrip(":"): int(each[1]) * 1024 for each in words if each[2:] == ["kB"]}


def _free_in_groups(root: Path) -> Iterator[int]:
    """What is free in each group that this process is in, from its own to the outermost that can be seen."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number != "0" and "memory" not in controllers.split(","):
            continue
        folder, *files = _GROUPS[number != "0"]
        # Seen from within another namespace, a group's name leads out of what is shown.
        group = Path(name.lstrip("/") if ".." not in name else "")
        for each in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):
                yield _free_in(root / folder / each, *files)


def _free_in(group: Path, limit: str, usage: str, reclaimable: str) -> int:
    told = {name: int(value) for name, value in (line.split() for line in (group / "memory.stat").read_text().splitlines())}
    bound = int((group / limit).read_text())
    # Version 1 tells of the bounds of groups that cannot be seen, too.
    bound = min(bound, told.get("hierarchical_memory_limit", bound))
    return bound - int((group / usage).read_text()) + told.get(reclaimable, 0)


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Turn torch's ways of saying that memory is short into one error of ours."""
    try:
        yield
    except RuntimeError as error:
        # What breaks off a recording shows as an error of the recording, and behind it.
        if isinstance(error.__context__, torch.OutOfMemoryError):
            error = error.__context__
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        advice = "a smaller hidden, dimension or sampled_nodes (--set) needs less"
        raise OutOfMemory(f"out of memory: {_first_sentence(error)}; {advice}") from None


def _first_sentence(error: RuntimeError) -> str:
    return str(error).partition("DefaultCPUAllocator: ")[2].partition(". ")[0] or str(error).partition(". ")[0]


class MemoryMeter:
    """The most memory in use since it was made: the allocator's on a GPU, else the process's resident memory.

    Where the system cannot forget an earlier peak (other than Linux), it is the peak since the process began.
    """

    def __init__(self, device: torch.device):
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")

    def peak(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        try:
            status = Path("/proc/self/status").read_text()
            return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
        except (OSError, StopIteration):
            return lifetime_peak()


def lifetime_peak() -> int:
    """The most memory that the process has had in use; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

"""How many processors this process may use, and its cgroups: limits that Linux sets, as in a container.

By hand, as psutil does not look at cgroups, and joblib's ``cpu_count`` (loky's) reads the quota of the outermost one alone:
that of a container, but not of a job of a batch system or systemd. Its import takes 0.4 s.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path


def cgroups(controller: str, root: Path) -> Iterator[tuple[int, Path]]:
    """The version and folder of each cgroup of this process for ``memory`` or ``cpu``, from the innermost to the outermost."""
    memberships = root / "proc/self/cgroup"
    for line in memberships.read_text().splitlines() if memberships.is_file() else ():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number != "0" and controller not in controllers.split(","):
            continue
        folder = root / "sys/fs/cgroup" / ("" if number == "0" else controller)
        # In another namespace, a group's path leads out of the visible ones.
        group = Path(name.lstrip("/") if ".." not in name else "")
        for each in (group, *group.parents):
            yield 2 if number == "0" else 1, folder / each


def usable_processors(root: Path = Path("/")) -> int:
    """How many processors this process may run on: those of its affinity, and as many as its cgroups give it time for."""
    # Not on macOS.
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for version, group in cgroups("cpu", root):
        # Without a quota it is "max" in version 2, and -1 in version 1.
        with contextlib.suppress(OSError, ValueError):
            if version == 2:
                quota, period = map(int, (group / "cpu.max").read_text().split())
            else:
                quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            if quota > 0 and period > 0:
                count = min(count, math.ceil(quota / period))
    return count

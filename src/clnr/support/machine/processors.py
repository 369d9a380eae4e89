"""How many processors this process may use.

By hand, as joblib's ``cpu_count`` (loky's) reads the quota of the outermost cgroup alone: that of a container, but not of a
job of a batch system or systemd. Its import takes 0.4 s.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path

from clnr.support.machine.cgroups import cgroups


def usable_processors(root: Path = Path("/")) -> int:
    """How many processors this process may run on: those of its affinity, and as many as its cgroups give it time for.

    Args:
        root: Where ``proc`` and ``sys`` are.
    """
    # Not on macOS.
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([count, *_in_cgroups(root)])


def _in_cgroups(root: Path) -> Iterator[int]:
    for version, group in cgroups("cpu", root):
        # Without a quota it is "max" in version 2, and -1 in version 1.
        with contextlib.suppress(OSError, ValueError):
            if version == 2:
                quota, period = map(int, (group / "cpu.max").read_text().split())
            else:
                quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
            if quota > 0 and period > 0:
                yield math.ceil(quota / period)

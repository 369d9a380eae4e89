"""The cgroups of this process: limits that Linux sets, as in a container. No library that is used here finds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def cgroups(controller: str, root: Path) -> Iterator[tuple[int, Path]]:
    """The version and folder of each cgroup of this process for a controller, from the innermost to the outermost visible.

    Args:
        controller: Such as ``memory`` or ``cpu``.
        root: Where ``proc`` and ``sys`` are.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number != "0" and controller not in controllers.split(","):
            continue
        folder = root / "sys/fs/cgroup" / ("" if number == "0" else controller)
        # In another namespace, a group's path leads out of the visible ones.
        group = Path(name.lstrip("/") if ".." not in name else "")
        for each in (group, *group.parents):
            yield 2 if number == "0" else 1, folder / each

"""Numbers as one would say them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """In the unit that one would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def counted(count: int, what: str) -> str:
    """So many of something: one node, two nodes."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"

"""Numbers as one would say them, and texts as one may print them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """In the unit that one would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def printable(text: str) -> str:
    """In one line, with nothing in it that a terminal would act upon or that would turn the text about it around."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def counted(count: int, what: str) -> str:
    """So many of something: one node, two nodes."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"

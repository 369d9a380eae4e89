"""Numbers as one would say them, and text as one can show it."""

from __future__ import annotations

import re

# What a terminal acts on instead of showing it: C0, DEL and C1, separators of lines, and what turns the direction of text.
_CONTROL = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SHOWN = {code: ascii(chr(code))[1:-1] for code in _CONTROL}

_GAP = " ... "
_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


def duration(seconds: float) -> str:
    """In the unit that one would say it in."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def counted(count: int, what: str) -> str:
    """So many of something: one node, two nodes."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def visible(text: str) -> str:
    """Text with its control characters written out, as ``\\x1b``: what is shown is then only ever text."""
    return text.translate(_SHOWN)


def one_line(text: str, most: int = 300) -> str:
    """Any text as one line, and not a long one."""
    return shortened(_BREAK.sub(" ", text.strip()), most)


def shortened(text: str, most: int) -> str:
    """Text of at most so many characters: where there are more, its beginning and its end."""
    if len(text) <= most:
        return text
    left = most - len(_GAP)
    return f"{text[: left - left // 2]}{_GAP}{text[len(text) - left // 2 :]}"

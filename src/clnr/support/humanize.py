"""Numbers and text for people to read."""

from __future__ import annotations

import re

# Characters that a terminal acts on instead of showing: C0, DEL, C1, line separators, and marks that change text direction.
_CONTROL_CODES = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _CONTROL_CODES}

_BYTES_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT])(i?)[bB]?")


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever unit fits: ``under 1 s``, ``42 s``, ``7 min``, ``1.5 h``."""
    if seconds < 0.5:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def gigabytes(count: float) -> str:
    """Bytes in units of 10^9, or of 10^6 or 10^3 where there are few: ``5.7 GB``, ``12 MB``, ``300 kB``."""
    if count >= 1e9:
        return f"{count / 1e9:,.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def parse_bytes(text: str) -> int | None:
    """The bytes of an amount such as ``4 GB``, ``512MiB`` or ``1.5g``; None if it is none."""
    match = _BYTES_PATTERN.fullmatch(text.strip())
    if match is None:
        return None
    number, prefix, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower()))


def plural(count: int, noun: str) -> str:
    """A count and its noun: ``1 node``, ``2 nodes``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def escape_control(text: str) -> str:
    """Text with its control characters escaped, as ``\\x1b``, so that a terminal only shows it."""
    return text.translate(_ESCAPES)


def describe_error(error: Exception) -> str:
    """An error's message as one line of at most 400 characters; the name of its type where it has no message."""
    return " ".join(str(error).split())[:400] or type(error).__name__

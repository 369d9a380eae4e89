"""What a user asks for: device, precision and threads. Whether they are there is for the engine to find out, with torch."""

from __future__ import annotations

from typing import NamedTuple

from clnr.errors import DeviceError
from clnr.support.arguments import check_choice, check_int
from clnr.support.humanize import plural
from clnr.support.machine.processors import usable_processors

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "float32", "bfloat16")
# As many as processors would do, but a run on a larger machine is repeated with its number of threads. Thousands crash.
_LARGEST_NUMBER_OF_THREADS = 256


class Asked(NamedTuple):
    """What a user asks for: device, precision and threads."""

    device: str = "auto"
    precision: str = "auto"
    threads: int | None = None


def check_device(device: str) -> str:
    return check_choice("device", device, DEVICES)


def check_precision(precision: str) -> str:
    return check_choice("precision", precision, PRECISIONS)


def check_threads(threads: int | None) -> int | None:
    """A number of threads, or None for as many as are worth it."""
    most = max(_LARGEST_NUMBER_OF_THREADS, usable_processors())
    if threads is not None and not 1 <= check_int("threads", threads) <= most:
        usable = plural(usable_processors(), "processor")
        raise DeviceError(f"threads must be from 1 to {most}, not {threads:,}; this process may use {usable}")
    return threads

"""Benchmarks, each with one question; the package never imports them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from clnr.errors import ClnrError


def positive(word: str) -> int:
    """The type of an option that is a positive integer."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def command(main: Callable[[], None]) -> None:
    """Call the entry point of a benchmark: a mistake of the user becomes one line and exit code 2."""
    try:
        main()
    except ClnrError as error:
        print(error, file=sys.stderr)
        sys.exit(2)

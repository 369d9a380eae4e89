"""Measurements that answer one question each; none is imported by the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from clnr.errors import ClnrError


def positive(word: str) -> int:
    """A whole number above zero, as an option's type."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def command(main: Callable[[], None]) -> None:
    """Call a measurement's entry point: what a user can get wrong becomes one line and exit code 2."""
    try:
        main()
    except ClnrError as error:
        print(error, file=sys.stderr)
        sys.exit(2)

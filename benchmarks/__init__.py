"""Benchmarks, each with one question; the package never imports them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clnr.errors import ClnrError


def positive(word: str) -> int:
    """The type of an option that is a positive integer."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def append(log: Path | None, record: dict[str, Any]) -> None:
    """Add a result to a log, if there is one: a line of JSON each."""
    if log is not None:
        with log.open("a") as file:
            file.write(json.dumps(record) + "\n")


def read(log: Path | None) -> list[dict[str, Any]]:
    """The results in a log."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log is not None and log.exists() else []


def command(main: Callable[[], None]) -> None:
    """Call the entry point of a benchmark: a mistake of the user becomes one line and exit code 2."""
    try:
        main()
    except ClnrError as error:
        print(error, file=sys.stderr)
        sys.exit(2)

"""The command line's entry point: Ctrl-C is heeded from its first line on, before torch is imported, which takes seconds."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

STOPPED = 130


def main() -> None:
    """The command line, or where it is stopped meanwhile exit code 130 and not a word."""
    try:
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual:
            # An import that is interrupted may take it for an error of its own: end at once, there is nothing to undo.
            signal.signal(signal.SIGINT, _stop)
        from clnr.cli import main as command_line

        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command_line()
    except KeyboardInterrupt:
        sys.exit(STOPPED)


def _stop(number: int, frame: Any) -> None:
    os._exit(STOPPED)


if __name__ == "__main__":
    main()

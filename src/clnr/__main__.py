"""The entry point of the command line. Ctrl-C works at any time, also in the seconds in which torch is imported."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from time import perf_counter
from types import FrameType

STOPPED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it with exit code 130."""
    began = perf_counter()
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _stop)
        from clnr.support import stage_clock

        stage_clock.process_began = began
        from clnr.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    finally:
        if signal.getsignal(signal.SIGINT) is _stop:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def run() -> None:
    """``main`` in a process of its own, which ends with it: to take torch and all memory apart would take a second."""
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(end.code or 0)


def _stop(number: int, frame: FrameType | None) -> None:
    """End at once during an import, which may take an interrupt for an error of its own; else interrupt as usual."""
    outer = frame
    while outer is not None:
        if outer.f_code.co_filename == "<frozen importlib._bootstrap>":
            os._exit(STOPPED)
        outer = outer.f_back
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    run()

"""The command line: a thin leaf on the library."""

from __future__ import annotations

import io
import os
import sys
import warnings

from clnr.cli import cmd_bench, cmd_embed, cmd_explore, cmd_info, cmd_paper, cmd_run
from clnr.cli.app import app, say
from clnr.errors import ClnrError
from clnr.support.deprecation import RenamedWarning

__all__ = ["app", "cmd_bench", "cmd_embed", "cmd_explore", "cmd_info", "cmd_paper", "cmd_run", "main"]


def main() -> None:
    """Entry point: what a user can get wrong becomes one line and exit code 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RenamedWarning)
        warnings.showwarning = _show
        sys.exit(_main())


def _main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return 130
    except ClnrError as error:
        said = str(error)
    except BrokenPipeError:
        # Whoever read our output has gone; nor can anything be said at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        said = "out of memory; less of it is needed for a smaller graph, hidden or dimension"
    except OSError as error:
        said = f"cannot read or write: {error}"
    except Exception as error:
        # Words that the parser refuses; its errors share this method, but no class across versions of Typer.
        if not hasattr(error, "format_message"):
            raise
        said = error.format_message()
        if not said:  # Called without a word: the help has been shown.
            return 2
        said = f"{said.rstrip('.')}; see: clnr --help"
    say(" ".join(said.split()))
    return 2


def _show(message: Warning | str, *_: object, **__: object) -> None:
    """A warning, as one line like any other."""
    say(f"warning: {message}")

"""The command line: a thin layer over the library."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable

from clnr.cli import cmd_bench, cmd_embed, cmd_experiments, cmd_explore, cmd_info, cmd_ingest, cmd_paper
from clnr.cli.app import app, say
from clnr.cli.recipe_options import command_name, unknown_option
from clnr.errors import ClnrError
from clnr.support.deprecation import RenamedWarning
from clnr.support.launch import end_process, end_with_parent

__all__ = ["app", "cmd_bench", "cmd_embed", "cmd_experiments", "cmd_explore", "cmd_info", "cmd_ingest", "cmd_paper", "main"]


def main() -> None:
    """Entry point: a user's mistake becomes one line on standard error and exit code 2."""
    end_with_parent()
    with warnings.catch_warnings():
        warnings.simplefilter("always", RenamedWarning)
        warnings.showwarning = _show_once(set())
        end_process(_main())


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
        message = str(error)
    except BrokenPipeError:
        # The reader of our output has gone: nothing may be written at exit, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        message = "out of memory; a smaller graph, hidden or dimension needs less"
    except OSError as error:
        message = f"cannot read or write: {error}"
    except Exception as error:
        # Arguments that the parser refuses: across versions of Typer its errors share this method, but no class.
        if not hasattr(error, "format_message"):
            raise
        message = unknown_option(error) if hasattr(error, "option_name") and hasattr(error, "possibilities") else ""
        message = message or error.format_message()
        if "see: clnr" not in message:
            message = f"{message.rstrip('.')}; see: clnr{command_name(getattr(error, 'ctx', None))} --help"
    say(" ".join(message.split()))
    return 2


def _show_once(shown: set[str]) -> Callable[..., None]:
    """How a warning is shown: as one line, and not twice."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            say(f"warning: {message}")

    return show

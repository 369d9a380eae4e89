"""The command line: a thin layer over the library."""

from __future__ import annotations

import functools
import io
import os
import sys
import warnings

from clnr.cli import cmd_embed, cmd_experiments, cmd_info, cmd_ingest, cmd_transform
from clnr.cli.app import app, print_stderr
from clnr.errors import ClnrError
from clnr.support.processes.launch import end_with_parent

__all__ = ["app", "cmd_embed", "cmd_experiments", "cmd_info", "cmd_ingest", "cmd_transform", "main"]


def main() -> None:
    """Entry point: a user's mistake becomes one line on standard error and exit code 2."""
    end_with_parent()
    show_once = functools.cache(lambda text: print_stderr(f"warning: {text}"))
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: show_once(str(message))
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
        context = getattr(error, "ctx", None)
        command = "clnr" if context is None or context.parent is None else f"clnr {context.info_name}"
        message = f"{error.format_message().rstrip('.')}; see: {command} --help"
    print_stderr(" ".join(message.split()))
    return 2

"""The command line: a thin layer over the library."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable

from clnr.cli import cmd_embed, cmd_experiments, cmd_info, cmd_ingest, cmd_transform
from clnr.cli.app import app, print_stderr
from clnr.cli.options import refused_argument
from clnr.errors import ClnrError
from clnr.support.humanize import gigabytes
from clnr.support.processes.launch import end_with_parent

# Bytes of address space with which PyTorch, numba, OpenBLAS and DuckDB hang or crash, and what a small graph takes.
_LEAST_BYTES, _SMALL_GRAPH_BYTES = 3_000_000_000, 4_000_000_000

__all__ = ["app", "cmd_embed", "cmd_experiments", "cmd_info", "cmd_ingest", "cmd_transform", "main"]


def main() -> None:
    """Entry point: a user's mistake becomes one line on standard error and exit code 2."""
    end_with_parent()
    with warnings.catch_warnings():
        warnings.showwarning = _show_once(set())
        sys.exit(_main())


def _main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    limited = ""
    try:
        limited = _limit_of_memory()
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
        message = f"out of memory; {limited or 'a smaller graph, hidden or dimension needs less'}"
    except OSError as error:
        # A library of numba's that cannot be loaded has no number.
        message = limited if limited and error.errno is None else f"cannot read or write: {error}"
    except Exception as error:
        # Arguments that the parser refuses: across versions of Typer its errors share this method, but no class.
        if hasattr(error, "format_message"):
            message = refused_argument(error)
        elif limited and isinstance(error, ImportError):
            message = limited
        else:
            raise
    print_stderr(" ".join(message.split()))
    return 2


def _limit_of_memory() -> str:
    """What to say if memory does not suffice, where the system limits that of this process; else ""."""
    try:
        import resource
    except ImportError:  # Windows.
        return ""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return ""
    message = (
        f"the memory of this process is limited to {gigabytes(limit)} (ulimit -v), and a small graph takes "
        f"{gigabytes(_SMALL_GRAPH_BYTES)}, most of it for libraries; raise the limit: ulimit -v unlimited"
    )
    if limit < _LEAST_BYTES and not {"--help", "--version"}.intersection(sys.argv):
        raise ClnrError(message)
    return message


def _show_once(shown: set[str]) -> Callable[..., None]:
    """How a warning is shown: as one line, and not twice."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print_stderr(f"warning: {message}")

    return show

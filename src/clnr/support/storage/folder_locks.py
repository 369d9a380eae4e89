"""Folders that are being read: other processes of clnr do not replace them, and other programs wait before they write."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

# The descriptors of files of folders that this process shares, by which the system makes others wait.
_leases: dict[Path, int] = {}


@contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    """Keep other processes of clnr from replacing a folder while the block reads it; other programs that write to it wait.

    Where the system, the file system or the rights allow no lock, nothing is locked.
    """
    with ExitStack() as stack:
        with suppress(OSError, ImportError):
            import fcntl

            file = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            for path in folder.iterdir():
                if path.is_file():
                    stack.enter_context(_leased(path))
        yield


def is_shared(folder: Path) -> bool:
    """Whether another process is within ``shared_folder``."""
    with suppress(OSError, ImportError):
        import fcntl

        file = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


@contextmanager
def _leased(path: Path) -> Iterator[None]:
    """Let whoever opens a file to write, or cuts it, wait until ``is_wanted`` was asked; the system grants some seconds."""
    if sys.platform != "linux" or path in _leases:
        yield
        return
    import fcntl

    file = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            # A signal tells that somebody waits; this one is ignored, as nobody handles it.
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            _leases[path] = file
        yield
    finally:
        _leases.pop(path, None)
        os.close(file)


def is_wanted(path: Path) -> bool:
    """Whether a program waits to write to a file of a folder that this process shares."""
    file = _leases.get(path)
    if sys.platform != "linux" or file is None:
        return False
    import fcntl

    return fcntl.fcntl(file, fcntl.F_GETLEASE) != fcntl.F_RDLCK

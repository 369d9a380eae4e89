"""One process at a time writes a file or folder: a lock beside it, which ends with the process.

``filelock`` leaves its file behind, and fails where a file system has no locks.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from clnr.errors import ClnrError


def temporary_name(name: str, role: str) -> str:
    """The name of the ``part``, ``old`` or ``lock`` of a file or folder while it is written; a killed process leaves it."""
    return f".{name}.clnr.{role}"


def temporary_path(path: Path, role: str) -> Path:
    """The path of that name, beside a file or folder."""
    return path.with_name(temporary_name(path.name, role))


@contextlib.contextmanager
def file_lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a path: a file beside it. The system releases it even if the process is killed.

    Where the file system has no locks, nothing is locked.

    Args:
        path: The file or folder.
        wait: Whether to wait while another process holds it; if not, that is an error.
    """
    lock = temporary_path(path, "lock")
    while True:
        with lock.open("ab") as file:
            if not _lock(file.fileno(), wait):
                raise ClnrError(f"{path} is being written by another process; let it finish, or choose another place")
            # The process that held it before may have removed the file: then this one locks nothing.
            if not _is_same_file(lock, file.fileno()):
                continue
            try:
                yield
            finally:
                if sys.platform != "win32":
                    lock.unlink(missing_ok=True)
        break
    if sys.platform == "win32":  # Open files cannot be removed here, so a file that another process has locked stays.
        with contextlib.suppress(OSError):
            lock.unlink()


def _lock(file: int, wait: bool) -> bool:
    """Take the lock of an open file; False if another process has it."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # A file system without locks.
        return True
    return True


def _is_same_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False

"""Locks, which end with the process: one at a time writes a file or folder, and who reads a folder keeps others from writing.

By hand, as ``filelock`` leaves its file behind, and fails where a file system has no locks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from clnr.errors import ClnrError

# The descriptors of files of folders that this process reads, by which the system makes others wait.
_leases: dict[Path, int] = {}


def temporary_name(name: str, role: str) -> str:
    """The name of the ``part``, ``old`` or ``lock`` of a file or folder while it is written; a killed process leaves it."""
    return f".{name}.clnr.{role}"


def temporary_path(path: Path, role: str) -> Path:
    """The path of that name, beside a file or folder."""
    return path.with_name(temporary_name(path.name, role))


@contextlib.contextmanager
def file_lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a path: a file beside it. The system releases it even if the process is killed.

    If another process holds it, ``wait``, or that is an error. Where the file system has no locks, nothing is locked.
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


@contextlib.contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    """Keep other processes of clnr from replacing a folder while the block reads it; other programs that write to it wait.

    Where the system, the file system or the rights allow no lock, nothing is locked.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ImportError):
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
    with contextlib.suppress(OSError, ImportError):
        import fcntl

        file = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


@contextlib.contextmanager
def _leased(path: Path) -> Iterator[None]:
    """Let whoever opens a file to write, or cuts it, wait until ``is_wanted`` was asked; the system grants some seconds."""
    if sys.platform != "linux" or path in _leases:
        yield
        return
    import fcntl

    file = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
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

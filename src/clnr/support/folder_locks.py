"""Folders that are being read, so that other processes of clnr do not replace them meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def shared_folder(folder: Path) -> Iterator[None]:
    """Keep other processes of clnr from replacing a folder while the block reads it.

    Where the system, the file system or the rights allow no lock, nothing is locked.
    """
    with ExitStack() as stack:
        with suppress(OSError, ImportError):
            import fcntl

            file = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
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

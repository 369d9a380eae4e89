"""Files and folders written whole or not at all, by one process at a time."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clnr.errors import ClnrError

_WORKING_FOLDER = -100
_EXCHANGE = 2


@dataclass(frozen=True)
class Ours:
    """What tells a folder of ours from anybody else's.

    Attributes:
        names: Of every file that may be in one.
        marked: Whether a folder's content says that it is one.
    """

    names: frozenset[str]
    marked: Callable[[Path], bool]

    def foreign(self, folder: Path) -> str | None:
        """The name of something in a folder that did not come from here, if there is such a thing."""
        there = sorted(each.name for each in folder.iterdir())
        marked = not there or self.marked(folder)
        return next((name for name in there if name not in self.names or not marked), None)

    def remove(self, folder: Path) -> None:
        """Remove a folder with the files of ours in it; where there is anything else, that stays."""
        for path in folder.iterdir():
            if path.name in self.names:
                path.unlink()
        try:
            folder.rmdir()
        except OSError:
            left = sorted(path.name for path in folder.iterdir())
            if not left:
                raise
            raise ClnrError(f"{folder} holds '{left[0]}', which did not come from here; move it elsewhere") from None


def resolved(path: Path) -> Path:
    """Where a path leads to, whether or not there is anything."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise ClnrError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return Path(os.path.realpath(path))


# -- one at a time ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a path, a file beside it; the system lifts it even from a killed process.

    Where the file system knows no locks, nothing is held.

    Args:
        path: The file or folder.
        wait: Whether to wait for another process to let go; if not, that is an error.
    """
    lock = _beside(path, "lock")
    while True:
        with lock.open("ab") as file:
            if not _lock(file.fileno(), wait):
                raise ClnrError(f"{path} is being written by another process; let it finish, or choose another place")
            # Whoever held it before has removed it: then this is the lock of nothing.
            if not _is(lock, file.fileno()):
                continue
            try:
                yield
            finally:
                if sys.platform != "win32":
                    lock.unlink(missing_ok=True)
        break
    if sys.platform == "win32":  # Where an open file cannot be removed, so that none is that another process has locked.
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


def _is(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def reserved(path: Path, ours: Ours) -> Iterator[None]:
    """Be the only process that writes to a folder, from before the work until it is done; else fail now.

    What killed processes have left of it is cleared, and what one had just put aside is put back.
    """
    path = resolved(path)
    if os.path.ismount(path):
        raise ClnrError(f"{path} is where a file system begins, which cannot be replaced; choose a folder in it")
    with contextlib.ExitStack() as stack:
        try:
            for parent in reversed([path.parent, *path.parent.parents]):
                if not parent.is_dir():
                    parent.mkdir(exist_ok=True)
                    stack.callback(_remove_empty, parent)
            stack.enter_context(locked(path))
            _recover(path, ours)
        except OSError as error:
            raise ClnrError(f"{path} cannot be made: {error.filename}: {error.strerror}") from None
        yield


def _recover(path: Path, ours: Ours) -> None:
    part, old = _beside(path, "part"), _beside(path, "old")
    if old.is_dir() and not path.exists():
        old.rename(path)
    for left in (part, old):
        if left.is_dir():
            ours.remove(left)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _beside(path: Path, what: str) -> Path:
    return path.with_name(beside(path.name, what))


def beside(name: str, what: str) -> str:
    """The name of a file or folder that exists while another is written, and after a kill."""
    return f".{name}.clnr.{what}"


# -- files ------------------------------------------------------------------------------------------------------------------


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, wait=True), _part(path) as part:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync(path.parent)
    return path


def tidy(path: Path) -> None:
    """Clear what a killed process has left of a file that it was writing."""
    if any(_beside(path, what).exists() for what in ("part", "lock")):
        with locked(path, wait=True), _part(path):
            pass


@contextlib.contextmanager
def _part(path: Path) -> Iterator[Path]:
    part = _beside(path, "part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Let the names in a folder outlast a power cut, where the system can."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


# -- folders ----------------------------------------------------------------------------------------------------------------


def check_folder(path: Path, force: bool, ours: Ours) -> None:
    """Fail now, not after the work, where a folder holds what is not to be lost.

    Args:
        path: The folder.
        force: Whether one that was written before may be overwritten.
        ours: What tells such a one: any other is never overwritten.
    """
    path = resolved(path)
    if obstacle := _obstacle(path, force, ours):
        raise ClnrError(f"{path} {obstacle}")
    if Path.cwd().is_relative_to(path):
        raise ClnrError(f"{path} cannot be written while one is in it; go elsewhere, or choose another folder")


def _obstacle(path: Path, force: bool, ours: Ours) -> str | None:
    """Why what is at a path cannot be replaced, if so."""
    if not path.exists():
        return None
    if not path.is_dir():
        return "is a file, not a folder to write to"
    if (name := ours.foreign(path)) is not None:
        return f"holds '{name}', which did not come from here and would be lost; choose another folder"
    if not force and any(path.iterdir()):
        return "is there already; choose another folder, or overwrite it with --force (force=True)"
    return None


@contextlib.contextmanager
def whole_folder(path: Path, force: bool, ours: Ours) -> Iterator[Path]:
    """A folder to write to, which becomes ``path`` when the block ends, in place of what was there; not on an error.

    It is for whoever has it ``reserved``. What may not be replaced is looked for again when all is written; where there is such
    a thing by then, what was written goes elsewhere, and the error says where.
    """
    path = resolved(path)
    part = _beside(path, "part")
    try:
        try:
            part.mkdir()
            yield part
            _flush(part)
        except OSError as error:
            raise ClnrError(f"{path} cannot be written: {error.strerror or error}; nothing of it was") from None
        _place(part, path, force, ours)
    finally:
        if part.is_dir():
            ours.remove(part)


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("r+b") as file:
            os.fsync(file.fileno())
    _sync(folder)


def _place(part: Path, path: Path, force: bool, ours: Ours) -> None:
    try:
        obstacle = _obstacle(path, force, ours)
        if obstacle is None:
            _replace(part, path, ours)
            return
    except OSError as error:
        obstacle = f"cannot be written: {error.strerror or error}"
    raise ClnrError(f"{path} {obstacle}; what was made is kept in {_aside(part, path)}")


def _replace(part: Path, path: Path, ours: Ours) -> None:
    if not path.exists() or not any(path.iterdir()):
        _rename(part, path)
    elif not _exchange(part, path):
        old = _beside(path, "old")
        path.rename(old)
        try:
            part.rename(path)
        except OSError:
            old.rename(path)
            raise
        ours.remove(old)
    _sync(path.parent)


def _rename(part: Path, path: Path) -> None:
    """Rename a folder to one that is not there, or is empty."""
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()
    part.rename(path)


def _aside(part: Path, path: Path) -> Path:
    for number in itertools.count(2):
        free = path.with_name(f"{path.name}-{number}")
        with contextlib.suppress(FileExistsError):
            free.mkdir()
            _rename(part, free)
            return free
    raise AssertionError


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where that could not be done."""
    names = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "linux":
            return ctypes.CDLL(None).renameat2(_WORKING_FOLDER, names[0], _WORKING_FOLDER, names[1], _EXCHANGE) == 0
        if sys.platform == "darwin":
            return ctypes.CDLL(None).renamex_np(*names, _EXCHANGE) == 0
    except (AttributeError, OSError):  # A C library that does not know it.
        pass
    return False

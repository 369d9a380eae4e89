"""Files and folders: written complete or not at all, by one process at a time. No library used here does it for folders.

A reader sees the old folder or the new one. Whatever clnr did not write is never replaced or removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from clnr.errors import ClnrError, shorten

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# Of the names beside a folder, that of its checkpoint is the longest.
_LONGEST_SUFFIX = ".checkpoint"
_ROOT_MESSAGE = "{} is the root of a file system, which cannot be replaced; choose a folder in it"


# -- paths ------------------------------------------------------------------------------------------------------------------


def resolve_path(path: Path) -> Path:
    """The real path behind symbolic links, whether or not anything is there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise ClnrError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    real = Path(os.path.realpath(path))
    if not real.name:
        raise ClnrError(_ROOT_MESSAGE.format(path))
    return real


def temporary_name(name: str, role: str) -> str:
    """The name of the ``part``, ``old`` or ``lock`` of a file or folder while it is written; a killed process leaves it."""
    return f".{name}.clnr.{role}"


def temporary_path(path: Path, role: str) -> Path:
    """The path of that name, beside a file or folder."""
    return path.with_name(temporary_name(path.name, role))


def check_name(path: Path, beside: str = "") -> None:
    """Fail before the work, not after it, where the names of temporary files, or of one with ``beside`` added, are too long."""
    near = next(parent for parent in path.absolute().parents if parent.is_dir())
    longest = os.pathconf(near, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
    most = longest - len(temporary_name(beside, "part"))
    if (length := len(os.fsencode(path.name))) > most:
        raise ClnrError(f"{shorten(path.name, 80)}: a name of {length} bytes is too long; choose one of at most {most}")


# -- locks ------------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def file_lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a path: a file beside it. The system releases it even if the process is killed.

    If another process holds it, ``wait``, or that is an error. Where the file system has no locks, nothing is locked. By hand,
    as ``filelock`` leaves its file behind, and fails where a file system has no locks.
    """
    beside = temporary_path(path, "lock")
    while True:
        with beside.open("ab") as file:
            if not _lock(file.fileno(), wait):
                raise ClnrError(f"{path} is being written by another process; let it finish, or choose another place")
            # The process that held it before may have removed the file: then this one locks nothing.
            if not _is_same_file(beside, file.fileno()):
                continue
            try:
                yield
            finally:
                if sys.platform != "win32":
                    beside.unlink(missing_ok=True)
        break
    if sys.platform == "win32":  # Open files cannot be removed here, so a file that another process has locked stays.
        with contextlib.suppress(OSError):
            beside.unlink()


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


# -- files that are written -------------------------------------------------------------------------------------------------


def write_atomic(path: Path, content: bytes) -> Path:
    """Write a file: complete or not at all."""
    with atomic_file(path) as part:
        part.write_bytes(content)
    return path


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Where to write a file; after the block it has its own name, complete, and after an error nothing is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path, wait=True), _part(path) as part:
        yield part
        _sync(part)
        part.replace(path)
        _sync_names(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of a killed process that was writing a file."""
    if any(temporary_path(path, role).exists() for role in ("part", "lock")):
        with file_lock(path, wait=True), _part(path):
            pass


@contextlib.contextmanager
def _part(path: Path) -> Iterator[Path]:
    part = temporary_path(path, "part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


def _sync(file: Path) -> None:
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def _sync_names(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system can."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


# -- folders that are written -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnFiles:
    """What clnr writes to a folder: patterns of names in it, with ``/`` below a folder, and whether its content is clnr's."""

    patterns: tuple[str, ...]
    recognizes: Callable[[Path], bool]

    def _is_own(self, folder: Path, path: Path) -> bool:
        return any(fnmatch(path.relative_to(folder).as_posix(), pattern) for pattern in self.patterns)

    def find_foreign(self, folder: Path) -> str | None:
        """The first name in a folder that clnr did not write, or None."""
        entries = sorted(folder.rglob("*"))
        if entries and not self.recognizes(folder):
            return entries[0].name
        foreign = (path.relative_to(folder).as_posix() for path in entries if not self._is_own(folder, path))
        return next(foreign, None)

    def remove(self, folder: Path) -> None:
        """Remove a folder and clnr's files in it; others stay, and are an error."""
        for path in sorted(folder.rglob("*"), reverse=True):
            if not self._is_own(folder, path):
                continue
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.rmdir()
            else:
                path.unlink()
        if left := sorted(path.name for path in folder.iterdir()):
            raise ClnrError(f"{folder} holds '{left[0]}', which clnr did not write; move it elsewhere")
        folder.rmdir()


@contextlib.contextmanager
def reserve_folder(path: Path, own: OwnFiles) -> Iterator[None]:
    """Be the only process that writes to a folder while the block runs; fail at once if another does.

    Leftovers of killed processes are removed, and a folder that one had just renamed is put back.
    """
    path = resolve_path(path)
    if os.path.ismount(path):
        raise ClnrError(_ROOT_MESSAGE.format(path))
    check_name(path, _LONGEST_SUFFIX)
    with contextlib.ExitStack() as stack:
        try:
            for parent in reversed([path.parent, *path.parent.parents]):
                if not parent.is_dir():
                    parent.mkdir(exist_ok=True)
                    stack.callback(_remove_empty, parent)
            stack.enter_context(file_lock(path))
            part, old = temporary_path(path, "part"), temporary_path(path, "old")
            if old.is_dir() and not path.exists():
                old.rename(path)
            for left in (part, old):
                if left.is_dir():
                    own.remove(left)
        except OSError as error:
            raise ClnrError(f"{path} cannot be created: {error.filename}: {error.strerror}") from None
        yield


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def check_folder(path: Path, force: bool, own: OwnFiles) -> None:
    """Fail before the work, not after it, where writing a folder would destroy files.

    With ``force``, one that clnr wrote before may be overwritten; one with a file that is not its ``own``, never.
    """
    path = resolve_path(path)
    if obstacle := _obstacle(path, force, own):
        raise ClnrError(f"{path} {obstacle}")
    if Path.cwd().is_relative_to(path):
        raise ClnrError(f"{path} is the working directory or above it; change to another, or choose another folder")


def _obstacle(path: Path, force: bool, own: OwnFiles) -> str | None:
    """Why what is at a path cannot be replaced; None if it can."""
    if not path.exists():
        return None
    if not path.is_dir():
        return "is a file, not a folder to write to"
    if (name := own.find_foreign(path)) is not None:
        return f"holds '{name}', which this command did not write and would be lost; choose another folder"
    if not force and any(path.iterdir()):
        return "exists already; choose another folder, or overwrite it with --force"
    return None


@contextlib.contextmanager
def atomic_folder(path: Path, force: bool, own: OwnFiles) -> Iterator[Path]:
    """A temporary folder to write to; it replaces ``path`` when the block ends, unless by an error.

    Call it within ``reserve_folder``. Whether ``path`` may be replaced is checked again when all is written; if not, the new
    folder is kept under another name, which the error tells.
    """
    path = resolve_path(path)
    part = temporary_path(path, "part")
    try:
        try:
            part.mkdir()
            yield part
        except OSError as error:
            raise ClnrError(f"{path} cannot be written: {error.strerror or error}; nothing was written") from None
        move_folder(part, path, force, own)
    finally:
        if part.is_dir():
            own.remove(part)


def move_folder(part: Path, path: Path, force: bool, own: OwnFiles) -> None:
    """Put a complete folder in the place of another, as ``atomic_folder`` does; within ``reserve_folder``."""
    path, old = resolve_path(path), None
    try:
        for each in part.rglob("*"):
            if each.is_dir():
                _sync_names(each)
            else:
                _sync(each)
        _sync_names(part)
    except OSError as error:
        raise ClnrError(f"{path} cannot be written: {error.strerror or error}; what was written is in {part}") from None
    try:
        obstacle = _obstacle(path, force, own)
        if obstacle is None:
            old = _replace(path, part)
    except OSError as error:
        obstacle = f"cannot be written: {error.strerror or error}"
    if obstacle is not None:
        raise ClnrError(f"{path} {obstacle}; the new folder is kept as {_keep_aside(path, part)}")
    if old is not None:
        own.remove(old)


def _replace(path: Path, part: Path) -> Path | None:
    """Put a folder in the place of another; returns where that one is now, if there was one."""
    old: Path | None = None
    if not path.exists() or not any(path.iterdir()):
        _rename(part, path)
    elif _exchange(part, path):
        old = part
    else:
        old = temporary_path(path, "old")
        path.rename(old)
        try:
            part.rename(path)
        except OSError:
            old.rename(path)
            raise
    _sync_names(path.parent)
    return old


def _rename(part: Path, path: Path) -> None:
    """Rename a folder to a path where there is nothing, or an empty folder."""
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()
    part.rename(path)


def _keep_aside(path: Path, part: Path) -> Path:
    for number in itertools.count(2):
        free = path.with_name(f"{path.name}-{number}")
        with contextlib.suppress(FileExistsError):
            free.mkdir()
            _rename(part, free)
            return free
    raise AssertionError


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    names = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "linux":
            return ctypes.CDLL(None).renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
        if sys.platform == "darwin":
            return ctypes.CDLL(None).renamex_np(*names, _RENAME_EXCHANGE) == 0
    except (AttributeError, OSError):  # A C library that does not know it.
        pass
    return False

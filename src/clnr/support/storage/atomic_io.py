"""Files and folders written atomically, by one process at a time. No library used here does it for folders."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from clnr.errors import ClnrError, shorten
from clnr.support.storage.file_locks import file_lock, is_shared, temporary_name, temporary_path
from clnr.support.storage.owned_files import OwnedFiles

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# Of the names beside a folder, that of its checkpoint is the longest.
_LONGEST_SUFFIX = ".checkpoint"
_ROOT_MESSAGE = "{} is the root of a file system, which cannot be replaced; choose a folder in it"


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


def check_name(path: Path, beside: str = "") -> None:
    """Fail before the work, not after it, where the names of temporary files, or of one with ``beside`` added, are too long."""
    near = next(parent for parent in path.absolute().parents if parent.is_dir())
    longest = os.pathconf(near, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
    most = longest - len(temporary_name(beside, "part"))
    if (length := len(os.fsencode(path.name))) > most:
        raise ClnrError(f"{shorten(path.name, 80)}: a name of {length} bytes is too long; choose one of at most {most}")


# -- files ------------------------------------------------------------------------------------------------------------------


def write_atomic(path: Path, content: bytes) -> Path:
    """Write a file atomically: complete or not at all."""
    with atomic_file(path) as part:
        part.write_bytes(content)
    return path


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Where to write a file; after the block it has its own name, complete, and after an error nothing is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path, wait=True), _part(path) as part:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
        _sync(path.parent)


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


def _sync(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system can."""
    with contextlib.suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


# -- folders ----------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def reserve_folder(path: Path, owned: OwnedFiles) -> Iterator[None]:
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
            _recover(path, owned)
        except OSError as error:
            raise ClnrError(f"{path} cannot be created: {error.filename}: {error.strerror}") from None
        yield


def _recover(path: Path, owned: OwnedFiles) -> None:
    part, old = temporary_path(path, "part"), temporary_path(path, "old")
    if old.is_dir() and not path.exists():
        old.rename(path)
    for left in (part, old):
        if left.is_dir():
            owned.remove(left)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def check_folder(path: Path, force: bool, owned: OwnedFiles) -> None:
    """Fail before the work, not after it, where writing a folder would destroy files.

    With ``force``, one that clnr wrote before may be overwritten; one with a file that is not ``owned``, never.
    """
    path = resolve_path(path)
    if obstacle := _obstacle(path, force, owned):
        raise ClnrError(f"{path} {obstacle}")
    if Path.cwd().is_relative_to(path):
        raise ClnrError(f"{path} is the working directory or above it; change to another, or choose another folder")


def _obstacle(path: Path, force: bool, owned: OwnedFiles) -> str | None:
    """Why what is at a path cannot be replaced; None if it can."""
    if not path.exists():
        return None
    if not path.is_dir():
        return "is a file, not a folder to write to"
    if (name := owned.find_foreign(path)) is not None:
        return f"holds '{name}', which this command did not write and would be lost; choose another folder"
    if not force and any(path.iterdir()):
        return "exists already; choose another folder, or overwrite it with --force"
    if is_shared(path):
        return "is being read by another process, which trains on it; let it finish, or choose another folder"
    return None


@contextlib.contextmanager
def atomic_folder(path: Path, force: bool, owned: OwnedFiles) -> Iterator[Path]:
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
            _flush(part)
        except OSError as error:
            raise ClnrError(f"{path} cannot be written: {error.strerror or error}; nothing was written") from None
        _move_into_place(part, path, force, owned)
    finally:
        if part.is_dir():
            owned.remove(part)


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            _flush(path)
        else:
            with path.open("r+b") as file:
                os.fsync(file.fileno())
    _sync(folder)


def move_folder(part: Path, path: Path, force: bool, owned: OwnedFiles) -> None:
    """Put a complete folder in the place of another, as ``atomic_folder`` does; within ``reserve_folder``."""
    try:
        _flush(part)
    except OSError as error:
        raise ClnrError(f"{path} cannot be written: {error.strerror or error}; what was written is in {part}") from None
    _move_into_place(part, resolve_path(path), force, owned)


def _move_into_place(part: Path, path: Path, force: bool, owned: OwnedFiles) -> None:
    old: Path | None = None
    try:
        obstacle = _obstacle(path, force, owned)
        if obstacle is None:
            old = _replace(part, path)
    except OSError as error:
        obstacle = f"cannot be written: {error.strerror or error}"
    if obstacle is not None:
        raise ClnrError(f"{path} {obstacle}; the new folder is kept as {_keep_aside(part, path)}")
    if old is not None:
        owned.remove(old)


def _replace(part: Path, path: Path) -> Path | None:
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
    _sync(path.parent)
    return old


def _rename(part: Path, path: Path) -> None:
    """Rename a folder to a path where there is nothing, or an empty folder."""
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()
    part.rename(path)


def _keep_aside(part: Path, path: Path) -> Path:
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

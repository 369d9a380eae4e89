"""Files and folders: written complete or not at all, by one process at a time, and read without trust.

By hand, as no library used here does it for folders.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from clnr.errors import ClnrError, DataError, option
from clnr.support.humanize import describe_error

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_READ_TRIES, _RETRY_SECONDS = 20, 0.05
_ROOT_MESSAGE = "{} is the root of a file system, which cannot be replaced; choose a folder in it"

Read = TypeVar("Read")


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


def temporary_path(path: Path, role: str) -> Path:
    """The path of the ``part``, ``old`` or ``lock`` of a file or folder while it is written; a killed process leaves it."""
    return path.with_name(f".{path.name}.clnr.{role}")


@contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a path: a file beside it. If another process holds it, ``wait``, or that is an error.

    By hand, as ``filelock`` leaves its file behind, and fails where a file system has no locks.
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
        with suppress(OSError):
            beside.unlink()


def _lock(file: int, wait: bool) -> bool:
    """Take the lock of an open file; False if another process has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        # Any other error is that of a file system without locks.
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


def _is_same_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


@contextmanager
def write_file(path: Path) -> Iterator[Path]:
    """Where to write a file; after the block it has its own name, complete, and after an error nothing is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_path(path, "part")
    with lock(path, wait=True):
        try:
            yield part
            _sync(part)
            part.replace(path)
            _sync(path.parent)
        finally:
            part.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file: complete or not at all."""
    with write_file(path) as part:
        part.write_bytes(content)
    return path


def _sync(path: Path) -> None:
    """Flush a file to disk, or the names in a folder where the system can."""
    if not path.is_dir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        return
    with suppress(OSError):
        names = os.open(path, os.O_RDONLY)
        try:
            os.fsync(names)
        finally:
            os.close(names)


class OwnFiles(NamedTuple):
    """What clnr writes to a folder: patterns of names in it, with ``/`` below a folder, and whether its content is clnr's."""

    patterns: tuple[str, ...]
    recognizes: Callable[[Path], bool]

    def find_foreign(self, folder: Path) -> str | None:
        """The first name in a folder that clnr did not write, or None."""
        entries = sorted(folder.rglob("*"))
        if entries and not self.recognizes(folder):
            return entries[0].name
        names = (path.relative_to(folder).as_posix() for path in entries)
        return next((name for name in names if not any(fnmatch(name, pattern) for pattern in self.patterns)), None)


@contextmanager
def reserve_folder(path: Path) -> Iterator[None]:
    """Be the only process that writes to a folder while the block runs; fail at once if another does."""
    path = resolve_path(path)
    if os.path.ismount(path):
        raise ClnrError(_ROOT_MESSAGE.format(path))
    with ExitStack() as stack:
        try:
            for parent in reversed(path.parents):
                if not parent.is_dir():
                    parent.mkdir(exist_ok=True)
                    stack.callback(_remove_empty, parent)
            stack.enter_context(lock(path))
            _clear(path)
        except OSError as error:
            raise ClnrError(f"{path} cannot be created: {error.filename}: {error.strerror}") from None
        stack.callback(_clear, path)
        yield


def _clear(path: Path) -> None:
    """Remove what an error or a killed process has left, and put back a folder that was only renamed."""
    part, old = temporary_path(path, "part"), temporary_path(path, "old")
    if old.is_dir() and not path.exists():
        old.rename(path)
    for left in (part, old):
        if left.is_dir():
            shutil.rmtree(left)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def check_folder(path: Path, force: bool, own: OwnFiles) -> None:
    """Fail where writing a folder would destroy files: what is not its ``own``, and without ``force`` anything."""
    path = resolve_path(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise ClnrError(f"{path} is a file, not a folder to write to")
    if (name := own.find_foreign(path)) is not None:
        raise ClnrError(f"{path} holds '{name}', which this command did not write and would be lost; choose another folder")
    if not force and any(path.iterdir()):
        raise ClnrError(f"{path} exists already; choose another folder, or overwrite it with {option('force', True)}")
    if Path.cwd().is_relative_to(path):
        raise ClnrError(f"{path} is the working directory or above it; change to another, or choose another folder")


@contextmanager
def write_folder(path: Path, force: bool, own: OwnFiles) -> Iterator[Path]:
    """A new folder, which takes the place of ``path`` when the block ends, unless by an error.

    Call it within ``reserve_folder``. If ``path`` may not be replaced by then, the new folder is kept under another name.
    """
    path = resolve_path(path)
    part = temporary_path(path, "part")
    try:
        part.mkdir()
        yield part
        for each in (*part.rglob("*"), part):
            _sync(each)
    except OSError as error:
        raise ClnrError(f"{path} cannot be written: {error.strerror or error}") from None
    try:
        check_folder(path, force, own)
        _replace(path, part)
    except (ClnrError, OSError) as error:
        free = path.with_name(f"{path.name}-{time.strftime('%Y%m%d-%H%M%S')}")
        part.rename(free)
        raise ClnrError(f"{error}; the new folder is kept as {free}") from None


def _replace(path: Path, part: Path) -> None:
    """Put a folder in the place of another, if there is one; ``reserve_folder`` removes what is left of that."""
    if path.exists() and _exchange(part, path):
        shutil.rmtree(part, ignore_errors=True)
    else:
        if path.exists():
            path.rename(temporary_path(path, "old"))
        part.rename(path)
    _sync(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    names = os.fsencode(one), os.fsencode(other)
    with suppress(AttributeError, OSError):  # A C library that does not know it.
        if sys.platform == "linux":
            return ctypes.CDLL(None).renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
        if sys.platform == "darwin":
            return ctypes.CDLL(None).renamex_np(*names, _RENAME_EXCHANGE) == 0
    return False


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Any error becomes a DataError of one line that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: the file is missing") from None
    except ClnrError as error:
        raise DataError(f"{path}: {describe_error(error)}") from None
    except Exception as error:
        raise DataError(f"{path}: it cannot be read, {type(error).__name__}: {describe_error(error)}") from None


def read_stable(folder: Path, name: str, read: Callable[[], Read]) -> Read:
    """Read from a folder that another process may replace: all is of the old folder, or all of the new one.

    ``name`` is a file in it that is written anew whenever the folder is; if that was meanwhile, ``read`` is called again.
    """
    for _ in range(_READ_TRIES):
        before = _identity(folder, name)
        try:
            content = read()
            if _identity(folder, name) == before:
                return content
        except ClnrError:
            # Where a system cannot exchange two folders, there is none for a moment.
            real = resolve_path(folder)
            is_renamed = not real.exists() and temporary_path(real, "old").is_dir()
            if not is_renamed and _identity(folder, name) == before:
                raise
            time.sleep(_RETRY_SECONDS)
    raise DataError(f"{folder}: another process keeps rewriting it; try again later")


def _identity(folder: Path, name: str) -> tuple[int, ...] | None:
    with suppress(OSError):
        here, file = folder.stat(), (folder / name).stat()
        return here.st_dev, here.st_ino, file.st_ino, file.st_mtime_ns
    return None


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str) -> Any:
    """The value of a JSON text; lone surrogates, which could not be written again, are refused."""
    value = json.loads(text)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def check_version(version: object, known: int) -> None:
    """Refuse a file of a format that this version of clnr does not know."""
    if version != known:
        raise DataError(f"its format is version {version!r:.40}, and this clnr reads version {known}")


def check_count(value: object) -> int:
    """A whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r:.40} is not a whole number from 0 on")
    return value


def check_positive(value: object) -> float:
    """A finite number above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"{value!r:.40} is not a finite number above 0")
    return float(value)

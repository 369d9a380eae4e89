"""Files and folders written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from clnr.errors import ClnrError


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def check_folder(path: Path, force: bool, ours: Collection[str]) -> None:
    """Fail now, not after the work, where a folder could not be written, or holds what is not to be lost.

    Args:
        path: The folder.
        force: Whether one that was written before may be overwritten.
        ours: Names of the files that are written there: a folder with any other is never overwritten.
    """
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise ClnrError(f"{path} is a file, not a folder to write to")
    there = sorted(each.name for each in path.iterdir()) if path.is_dir() else []
    for name in there:
        if name not in ours:
            raise ClnrError(f"{path} holds '{name}', which did not come from here and would be lost; choose another folder")
    if there and not force:
        raise ClnrError(f"{path} is there already; choose another folder, or overwrite it with --force (force=True)")
    if Path.cwd().is_relative_to(path):
        raise ClnrError(f"{path} cannot be written while one is in it; go elsewhere, or choose another folder")
    above = next(parent for parent in path.parents if parent.exists())
    try:
        _part(above / "try").mkdir()
    except OSError as error:
        raise ClnrError(f"{path} cannot be made: {above}: {error.strerror}") from None
    _part(above / "try").rmdir()


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which becomes ``path`` when the block ends, in place of what was there; not on an error."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    part, old = _part(path), path.with_name(f".{path.name}.{os.getpid()}.old")
    _clear(path)
    part.mkdir()
    try:
        yield part
        if path.exists():
            path.replace(old)
        try:
            part.replace(path)
        except OSError:
            if old.exists():
                old.replace(path)
            raise
    except OSError as error:
        raise ClnrError(f"{path} cannot be written: {error.strerror or error}; nothing of it was") from None
    finally:
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def _clear(path: Path) -> None:
    """Remove what processes that were killed have left of the same folder."""
    for left in path.parent.glob(f".{path.name}.*.part"):
        number = left.name.split(".")[-2]
        if number.isdigit() and not _alive(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _alive(process: int) -> bool:
    if os.name == "nt":  # Where signal 0 is no question.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

"""Files and folders written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
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


def check_folder(path: Path, force: bool) -> None:
    """Fail now, not after the work, where a folder could not be written."""
    if path.exists() and not path.is_dir():
        raise ClnrError(f"{path} is a file, not a folder to write to")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise ClnrError(f"{path} is there already, and not empty; choose another folder, or overwrite it with --force")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise ClnrError(f"{path} cannot be made: {above} cannot be written to")


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which becomes ``path`` when the block ends, in place of what was there; not on an error."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex[:8]
    part, old = (path.with_name(f".{path.name}.{name}.{end}") for end in ("part", "old"))
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
    finally:
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)

"""Files that are read without trusting them: any error becomes one line that names the file."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from clnr.errors import ClnrError, DataError
from clnr.support.storage.atomic_io import resolve_path, temporary_path

_READ_TRIES, _RETRY_SECONDS = 20, 0.05

Read = TypeVar("Read")


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Any error becomes a DataError of one line that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: the file is missing") from None
    except ClnrError as error:
        raise DataError(f"{path}: {_one_line(error)}") from None
    except Exception as error:
        raise DataError(f"{path}: it cannot be read, {type(error).__name__}: {_one_line(error)}") from None


def read_stable(folder: Path, name: str, read: Callable[[], Read]) -> Read:
    """Read from a folder that another process may replace meanwhile: all is of the old folder, or all of the new one.

    ``name`` is a file in it that is written anew whenever the folder is. If that was meanwhile, ``read`` is called again,
    whether it has failed or not.
    """
    for _ in range(_READ_TRIES):
        before = _identity(folder, name)
        try:
            content = read()
        except ClnrError:
            # Where a system cannot exchange two folders, there is none for a moment.
            real = resolve_path(folder)
            if not real.exists() and temporary_path(real, "old").is_dir():
                time.sleep(_RETRY_SECONDS)
            elif _identity(folder, name) == before:
                raise
        else:
            if _identity(folder, name) == before:
                return content
    raise DataError(f"{folder}: another process keeps rewriting it; try again later")


def _identity(folder: Path, name: str) -> list[int]:
    numbers: list[int] = []
    with suppress(OSError):
        here = folder.stat()
        numbers += [here.st_dev, here.st_ino]
        file = (folder / name).stat()
        numbers += [file.st_ino, file.st_mtime_ns]
    return numbers


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


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _one_line(error: Exception) -> str:
    """An error's message on one line of bounded length: it may repeat what is in a file."""
    return " ".join(str(error).split())[:400]

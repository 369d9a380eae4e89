"""The files that a path names. A path is never read as anything else: SQL, a URL or a pipe."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import Any

from clnr.errors import DataError, did_you_mean, one_line
from clnr.tables.io.encodings import unpacked
from clnr.tables.io.sql import Connection, quoted, run

TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
PARQUET_ENDINGS = (".parquet", ".pq")
JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
ENDINGS = (*TEXT_ENDINGS, *PARQUET_ENDINGS, *JSON_ENDINGS)
"""How the names of files end that tables are read from."""
MATRIX_ENDINGS = (".npy", ".npz")
# The most files that are looked at, and named, in place of one that there is not.
_MOST_LISTED, _MOST_NAMED = 10_000, 5
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_HOME = re.compile(r"~[^/\\]*[/\\]")
_GLOB = re.compile(r"[*?[]")
_QUERY = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)
# At the start of a path, DuckDB reads these as a home folder or a URL.
_SPECIAL = re.compile(r"~|[^/\\]{2,}:")


def ending_of(path: str) -> str:
    """How a file's name ends, in lower case and without that of a compression; it determines the format."""
    return Path(unpacked(path)).suffix.lower()


def find_files(db: Connection, path: str) -> list[str]:
    """The file of exactly this name if there is one, else one in a home folder, else those that match a glob."""
    if (file := find_file(path)) is not None:
        return [file]
    matches = run(db, f"SELECT file FROM glob({quoted(_local(_home(path)))}) ORDER BY file", path)
    if not matches:
        raise _no_file(path)
    return [file for (file,) in matches]


def find_file(path: str) -> str | None:
    """The file of this name; None for a glob, whose files are found by DuckDB. If there is none, that is an error."""
    _check(path)
    for exact in (path, _home(path)):
        if _exists(exact):
            if os.sep != "\\" and "\\" in exact and _GLOB.search(exact):
                raise DataError(f"{path}: DuckDB cannot open a name with a backslash and one of *?[ in it; rename the file")
            return exact
    if _ADDRESS.match(path):
        raise DataError(f"{path}: it is a URL, and only files on this machine are read; download it first")
    if not _GLOB.search(_home(path)):
        raise _no_file(path)
    return None


def _no_file(path: str) -> DataError:
    """The error for a file that there is not: with those that are called nearly so, or some with the same ending."""
    wanted, there = Path(path), list[str]()
    with contextlib.suppress(OSError):
        files = islice(Path(_home(path)).parent.iterdir(), _MOST_LISTED)
        there = sorted(str(wanted.with_name(each.name)) for each in files if ending_of(each.name) in ENDINGS and each.is_file())
    near = [] if _GLOB.search(path) else [each for each in there if did_you_mean(_stem(path), [_stem(each)])]
    alike = near or [each for each in there if ending_of(each) == ending_of(path)] or there
    some = ", ".join(alike[:_MOST_NAMED]) + (", ..." if len(alike) > _MOST_NAMED else "")
    hint = "" if not alike else f"; did you mean {some}?" if near else f"; there are {some}"
    return DataError(f"{path}: there is no such file{hint}")


def _stem(path: str) -> str:
    return Path(unpacked(path)).stem


def _home(path: str) -> str:
    return os.path.expanduser(path) if _HOME.match(path) else path


def is_query(table: Any) -> bool:
    """Whether what is given for a table is a query: text that begins with SELECT, WITH or FROM and does not end as a file."""
    return isinstance(table, str) and _QUERY.match(table) is not None and ending_of(table) not in ENDINGS


def check_is_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{one_line(str(path))}: there is no such file")


def files_sql(files: list[str]) -> str:
    """Files as a list in SQL, escaped so that DuckDB opens exactly these."""
    return f"[{', '.join(quoted(_local(escaped(file))) for file in files)}]"


def escaped(path: str) -> str:
    """A path in which no sign is one of a glob."""
    return _GLOB.sub(r"[\g<0>]", path)


def _local(path: str) -> str:
    return f"./{path}" if _SPECIAL.match(path) else path


def _check(path: str) -> None:
    if not path.strip():
        raise DataError("a table must be a file or a data frame, not empty text")
    if "\0" in path or path != path.encode("utf-8", "ignore").decode():
        raise DataError(f"{path!a}: the file name is not UTF-8")


def _exists(path: str) -> bool:
    """Whether there is such a file; a folder, pipe or device is an error."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
            return False
        raise DataError(f"{path}: it cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path}: it is a folder; name a file, or a glob such as {Path(path, '*.parquet')}")
    _check_mode(path, mode)
    return True


def check_no_pipe(path: str) -> None:
    """Raise if it is a pipe or a device, which opened could wait forever; what is not there is none."""
    with contextlib.suppress(OSError, ValueError):
        _check_mode(path, Path(path).stat().st_mode)


def _check_mode(path: str, mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{path}: it is a pipe or a device, but a table is read more than once; save it to a file first")

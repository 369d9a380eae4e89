"""Text files: the first line tells what divides columns, and whether it is a header."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clnr.errors import DataError
from clnr.tables.duckdb_errors import check_names
from clnr.tables.sql import quoted

_DELIMITERS = (",", "\t", ";", "|", " ")
_SEEN = 1 << 20


class Head(NamedTuple):
    """What the beginning of a text file tells.

    Attributes:
        titles: Names of columns.
        delimiter: What divides them.
        header: Whether they are read from the file.
        comments: Whether there are comments.
        newline: What ends a line, where DuckDB could not tell: it takes the first break for one, also in quotes.
    """

    titles: tuple[str, ...]
    delimiter: str
    header: bool
    comments: bool
    newline: str | None


def head(path: Path, names: Sequence[str]) -> Head:
    """What is seen in a file's first lines; a header is known by any of some names in it."""
    line, comments = _first_line(path)
    first = line.rstrip("\r\n")
    newline = line[len(first) :] if len(first.splitlines()) > 1 else None
    delimiter = max(_DELIMITERS, key=lambda each: (first.count(each) > 0, -_DELIMITERS.index(each)))
    try:
        fields = [field.strip() for field in next(csv.reader([first], delimiter=delimiter))]
    except csv.Error as error:
        raise DataError(f"{path}: its first line is no row of names: {error}") from None
    known = {name.strip().casefold() for name in names}
    header = any(field.casefold() in known for field in fields)
    titles = fields if header else [f"column {i}" for i in range(1, len(fields) + 1)]
    check_names(titles, str(path))
    return Head(tuple(titles), delimiter, header, comments, newline)


def common_head(paths: Sequence[Path], names: Sequence[str]) -> Head:
    """What the first lines of several files tell, which must be alike; of several, empty ones do not count."""
    some = [path for path in paths if path.stat().st_size] or paths[:1]
    seen = head(some[0], names)
    for path in some[1:]:
        other = head(path, names)
        if other[:3] != seen[:3]:
            raise DataError(f"{path}: its first line has other columns than that of {some[0]}")
        seen = seen._replace(comments=seen.comments or other.comments)
    return seen


def options(seen: Head) -> str:
    """DuckDB's options for reading such a file; a # is no comment in a file that does not begin with one."""
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(seen.titles)))
    newline = f", new_line = {quoted(repr(seen.newline)[1:-1])}" if seen.newline else ""
    return (
        f"delim = {quoted(seen.delimiter)}, header = {str(seen.header).lower()}, columns = {{{columns}}}, "
        f"auto_detect = false, hive_partitioning = false, "
        f"quote = '\"', escape = '\"', comment = '{'#' if seen.comments else ''}'{newline}"
    )


def _first_line(path: Path) -> tuple[str, bool]:
    """The first line that is no comment and not blank, and whether comments stand before it; with quotes, it may be several."""
    try:
        with _opened(path) as file:
            content = file.read(_SEEN)
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=len(content) < _SEEN)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: line {content.count(10, 0, error.start) + 1:,}: it is not text in UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if "\0" in text:
        raise DataError(
            f"{path}: line {text.count(chr(10), 0, text.index(chr(0))) + 1:,}: it is not text: it holds a zero byte"
        )
    first, comments, inside = "", False, False
    for line in io.StringIO(text, newline=""):
        if not inside and line.startswith("#"):
            comments = True
        elif inside or line.strip():
            first += line
            inside ^= bool(line.count('"') % 2)
            if not inside and line.endswith(("\r", "\n")):
                break
    else:
        if len(content) == _SEEN:
            raise DataError(f"{path}: its first line is longer than a first line may be, {_SEEN:,} bytes")
    if not first:
        raise DataError(f"{path}: there is nothing in it")
    return first, comments


def _opened(path: Path) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".zst":
        import pyarrow as pa

        return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
    return gzip.open(path, "rb") if suffix == ".gz" else path.open("rb")

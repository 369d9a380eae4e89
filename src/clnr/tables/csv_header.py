"""The first line of a text file: its delimiter, and whether it is a header.

DuckDB's own detection guesses types and headers from samples; here a header is one that has a known name.
"""

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


class Header(NamedTuple):
    """What the first lines of a text file tell.

    Attributes:
        names: Names of columns.
        delimiter: What separates them.
        in_file: Whether the names are the file's first line.
        comments: Whether there are comments.
        newline: What ends a line, if DuckDB could not tell: it takes the first line break for one, also in quotes.
    """

    names: tuple[str, ...]
    delimiter: str
    in_file: bool
    comments: bool
    newline: str | None


def read_header(path: Path, names: Sequence[str]) -> Header:
    """The header of a file; its first line is one if it has any of some names."""
    line, comments = _first_line(path)
    first = line.rstrip("\r\n")
    newline = line[len(first) :] if len(first.splitlines()) > 1 else None
    delimiter = max(_DELIMITERS, key=lambda each: (first.count(each) > 0, -_DELIMITERS.index(each)))
    try:
        fields = [field.strip() for field in next(csv.reader([first], delimiter=delimiter))]
    except csv.Error as error:
        raise DataError(f"{path}: its first line cannot be read as CSV: {error}") from None
    known = {name.strip().casefold() for name in names}
    in_file = any(field.casefold() in known for field in fields)
    columns = fields if in_file else [f"column {i}" for i in range(1, len(fields) + 1)]
    check_names(columns, str(path))
    return Header(tuple(columns), delimiter, in_file, comments, newline)


def common_header(paths: Sequence[Path], names: Sequence[str]) -> Header:
    """The header of several files, which must be the same; empty files are skipped."""
    some = [path for path in paths if path.stat().st_size] or paths[:1]
    header = read_header(some[0], names)
    for path in some[1:]:
        other = read_header(path, names)
        if other[:3] != header[:3]:
            raise DataError(f"{path}: its first line has other columns than that of {some[0]}")
        header = header._replace(comments=header.comments or other.comments)
    return header


def options(header: Header) -> str:
    """DuckDB's options to read such a file; # starts a comment only in files that begin with one."""
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(header.names)))
    newline = f", new_line = {quoted(repr(header.newline)[1:-1])}" if header.newline else ""
    return (
        f"delim = {quoted(header.delimiter)}, header = {str(header.in_file).lower()}, columns = {{{columns}}}, "
        f"auto_detect = false, hive_partitioning = false, "
        f"quote = '\"', escape = '\"', comment = '{'#' if header.comments else ''}'{newline}"
    )


def _first_line(path: Path) -> tuple[str, bool]:
    """The first line that is neither comment nor blank, and whether comments precede it; quotes may hold line breaks."""
    try:
        with _open(path) as file:
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
            raise DataError(f"{path}: its first line is longer than {_SEEN:,} bytes")
    if not first:
        raise DataError(f"{path}: there is nothing in it")
    return first, comments


def _open(path: Path) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".zst":
        import pyarrow as pa

        return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
    return gzip.open(path, "rb") if suffix == ".gz" else path.open("rb")

"""The first line of a text file: its delimiter, and whether it is a header.

DuckDB's own detection guesses without saying so. Here a known name decides, else what the lines below look like; a first line
that could be either is refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clnr.errors import DataError, one_line, option
from clnr.tables.io.encodings import line_at, not_utf_8, open_bytes, reading
from clnr.tables.io.sql import quoted

_DELIMITERS = (",", "\t", ";", "|", " ")
_SEEN_BYTES = 1 << 20
# The longest line that DuckDB reads, and its buffer: a last line that is longer than that it leaves out without a word.
_LONGEST_LINE_BYTES, _BUFFER_BYTES = 2_000_000, 32_000_000
_SAMPLE_ROWS = 1000
# A number, a date, a time, or both of these.
_NUMBER_PATTERN = re.compile(r"[-+]?[.,]?\d[-+.,:/\d]*([eT ][-+.,:/\d]+)?Z?|[-+]?(nan|inf|infinity)", re.IGNORECASE)


class KnownNames(NamedTuple):
    """Names of columns by which a header is known.

    Attributes:
        given: Those that the user gave: one of them is enough, whatever ``header`` says.
        usual: Groups of usual names: so is one of each group, and one alone where ``header`` is not given.
        others: Further names, of which one is enough where ``header`` is not given.
    """

    given: tuple[str, ...]
    usual: tuple[tuple[str, ...], ...]
    others: tuple[str, ...] = ()

    def is_header(self, fields: Sequence[str], header: bool | None) -> bool:
        """Whether a line is a header by its names."""
        plain = {field.strip().casefold() for field in fields}
        usual = [not plain.isdisjoint(group) for group in self.usual]
        named = any(name.strip().casefold() in plain for name in self.given)
        return named or all(usual) or (header is None and (any(usual) or not plain.isdisjoint(self.others)))


class Header(NamedTuple):
    """The format of a text file, as found from its first lines.

    Attributes:
        in_file: Whether the names are the file's first line.
        in_comment: Whether they are the comment above it.
        newline: What ends a line, if DuckDB could not tell: it takes the first line break for one, also in quotes.
        looks_otherwise: Whether the lines tell the opposite of what the user said.
    """

    names: tuple[str, ...]
    delimiter: str
    in_file: bool
    in_comment: bool
    comments: bool
    newline: str | None
    looks_otherwise: bool = False

    @property
    def options(self) -> str:
        """DuckDB's options to read such a file; # starts a comment only in files that begin with one."""
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self.names)))
        newline = f", new_line = {quoted(repr(self.newline)[1:-1])}" if self.newline else ""
        return (
            f"delim = {quoted(self.delimiter)}, header = {str(self.in_file).lower()}, columns = {{{columns}}}, "
            f"auto_detect = false, hive_partitioning = false, "
            f"quote = '\"', escape = '\"', comment = '{'#' if self.comments else ''}'{newline}"
        )


# What a row is, and the option that names its first column, by the role of its table.
ROWS = {"edges": ("an edge", "source"), "nodes": ("a node", "id")}


def check_names(names: Iterable[str], where: str) -> None:
    """Raise unless columns have distinct names, ignoring case as DuckDB does."""
    seen: dict[str, str] = {}
    for name in names:
        plain = name.strip().casefold()
        if not plain:
            raise DataError(f"{where}: it has a column without a name")
        if plain in seen:
            raise DataError(f"{where}: it has two columns of the same name, '{seen[plain]}' and '{name}'")
        seen[plain] = name


def read_header(paths: Sequence[Path], role: str, known: KnownNames, header: bool | None = None) -> Header:
    """The header of one or several files, which must be the same; empty files are skipped.

    A first line with known names is one; any other is as ``header`` says, or as the lines below tell.
    """
    some = [path for path in paths if path.stat().st_size] or paths[:1]
    heads = [_read_head(path) for path in some]
    for path in some:
        _check_last_line(path)
    # A file that has nothing but a first line cannot tell.
    lead = next((head for head in heads if head.rows), heads[0])
    in_file = lead.is_header(known, header)
    if in_file is None:
        row, first = ROWS[role]
        line, name = one_line(lead.line, 100), one_line(lead.names[0], 40)
        raise DataError(
            f"{lead.path}: its first line, '{line}', may be a header or {row}; add {option('header', True)} or "
            f"{option('header', False)}, or name a column, such as {option(first, name)}"
        )
    columns = lead.names if in_file else lead.comment_names or [f"column {i}" for i in range(1, len(lead.fields) + 1)]
    check_names(columns, str(lead.path))
    for head in heads:
        alike = head.names == lead.names if in_file else len(head.fields) == len(lead.fields)
        if not alike or head.delimiter != lead.delimiter or (not in_file and head.is_header(known, header)):
            raise DataError(f"{head.path}: its first line has other columns than that of {lead.path}")
    otherwise = header is not None and lead.is_header(known, None) is (not in_file)
    comments, in_comment = any(head.comments for head in heads), not in_file and bool(lead.comment_names)
    return Header(tuple(columns), lead.delimiter, in_file, in_comment, comments, lead.newline, otherwise)


class _Head(NamedTuple):
    """The first line of a file that is neither comment nor blank, its fields, and those of the lines after it."""

    path: Path
    line: str
    fields: list[str]
    rows: list[list[str]]
    delimiter: str
    comments: bool
    newline: str | None
    comment_names: list[str]

    @property
    def names(self) -> list[str]:
        """The fields as names of columns."""
        return [field.strip() for field in self.fields]

    def is_header(self, known: KnownNames, header: bool | None) -> bool | None:
        """Whether the first line is a header: by its names, else as given, else by the rows below; None if unclear.

        If the comment above names the columns, only names that are known make the first line a header.
        """
        plain = [name.casefold() for name in self.names]
        if known.is_header(plain, header):
            return True
        if self.comment_names:
            return False
        if header is not None:
            return header
        if not self.rows or not all(plain) or len(set(plain)) < len(plain):
            return False
        signs = {sign for field, *below in zip(self.names, *self.rows, strict=True) for sign in _signs(field, below)}
        if not {cell.strip() for row in self.rows for cell in row}.isdisjoint(self.names):
            signs.add(False)
        return signs.pop() if len(signs) == 1 else None


def _signs(field: str, below: Sequence[str]) -> Iterator[bool]:
    """Whether a field is the name of its column (True) or one of its values (False), as far as the values tell."""
    values = [value for each in below if (value := each.strip())]
    if _NUMBER_PATTERN.fullmatch(field):
        yield False
    elif values and all(map(_NUMBER_PATTERN.fullmatch, values)):
        yield True
    elif values and any(map(str.isdigit, field)):
        if {_shape(value) for value in values} == {_shape(field)}:
            yield False
    elif values and all(any(map(str.isdigit, value)) for value in values):
        yield True


def _shape(text: str) -> str:
    """A text without which letters and digits it has: that of P12 and Q7 is the same."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))


def _read_head(path: Path) -> _Head:
    text, cut = _first_bytes(path)
    lines = io.StringIO(text, newline="")
    first, comment, inside = "", "", False
    for line in lines:
        if not inside and line.startswith("#"):
            comment = line
        elif inside or line.strip():
            first += line
            inside ^= bool(line.count('"') % 2)
            if not inside and line.endswith(("\r", "\n")):
                break
    else:
        if cut:
            raise DataError(f"{path}: its first line is longer than {_SEEN_BYTES:,} bytes")
    if not first:
        raise DataError(f"{path}: it is empty")
    bare = first.rstrip("\r\n")
    newline = first[len(bare) :] if len(bare.splitlines()) > 1 else None
    delimiter = max(_DELIMITERS, key=lambda each: (bare.count(each) > 0, -_DELIMITERS.index(each)))
    try:
        fields = next(csv.reader([bare], delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"{path}: its first line cannot be read as CSV: {error}") from None
    rest = (line for line in lines if not (comment and line.startswith("#")))
    rows = _rows(rest, delimiter, len(fields), cut)
    return _Head(path, bare, fields, rows, delimiter, bool(comment), newline, _names_in(comment, delimiter, len(fields)))


def _names_in(comment: str, delimiter: str, count: int) -> list[str]:
    """The names of columns in a comment, as in '#node1 node2'; none unless it has a name for each column."""
    names = [name.strip() for name in comment.lstrip("#").strip().split(delimiter)]
    return names if len(names) == count > 1 and len({name.casefold() for name in names if name}) == count else []


def _rows(lines: Iterator[str], delimiter: str, width: int, cut: bool) -> list[list[str]]:
    """The rows of some lines that have as many fields as the first line has, without one that may be cut off."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            if len(rows) > _SAMPLE_ROWS:
                break
            rows.append(row)
        else:
            rows = rows[:-1] if cut else rows
    except csv.Error:
        pass
    return [row for row in rows[:_SAMPLE_ROWS] if len(row) == width]


def _first_bytes(path: Path) -> tuple[str, bool]:
    """The text of a file's first bytes, and whether there are more."""
    with reading(path), open_bytes(path) as file:
        content = file.read(_SEEN_BYTES)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=len(content) < _SEEN_BYTES)
    except UnicodeDecodeError as error:
        # Its bytes are those after a mark.
        raise DataError(f"{path}: {line_at(error.object, error.start)}: {not_utf_8()}") from None
    if "\0" in text:
        raise DataError(f"{path}: {line_at(content, content.index(0))}: it is not text: it holds a zero byte")
    return text, len(content) == _SEEN_BYTES


def _check_last_line(path: Path) -> None:
    if path.suffix.lower() in (".gz", ".zst") or path.stat().st_size <= _BUFFER_BYTES:
        return
    with path.open("rb") as file:
        file.seek(-_LONGEST_LINE_BYTES - 1, io.SEEK_END)
        last = re.split(rb"[\r\n]", file.read().rstrip(b"\r\n"))[-1]
        if len(last) >= _LONGEST_LINE_BYTES - 1:
            raise DataError(f"{path}: its last line is longer than a line may be, {_LONGEST_LINE_BYTES:,} bytes")

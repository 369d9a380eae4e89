"""Text files as DuckDB can read them: their encoding, line ends, delimiter and header."""

from __future__ import annotations

import codecs
import csv
import io
import re
import shutil
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from clnr.errors import DataError, did_you_mean, one_line, option
from clnr.support.humanize import plural
from clnr.tables.io.sql import NOT_UTF_8, open_bytes, quoted

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_KNOWN_ENCODINGS = ("utf-8", "utf-16", "cp1252", "latin-1", "cp1250", "cp1251", "shift_jis", "gb18030", "big5", "euc_kr")
_DELIMITERS = ",\t;| "
_COMMENT_SIGNS = ("#", "%")
_SEEN_BYTES, _SEEN_ROWS = 1 << 20, 200
ID_NAME = re.compile(r"(?i:(^|[\W_])id$)|[a-z](Id|ID)$")
"""The names of columns of ids: ``id``, ``user_id``, ``userId``; not ``paid``."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_STRANGE_LINE_END, _PLAIN_LINE_END = re.compile(rb"\r\r\n|\r(?!\n)"), re.compile(rb"(?<!\r)\n")
_LONGEST_LINE_BYTES = 2_000_000


class Head(NamedTuple):
    """What the first rows of a text file tell.

    Attributes:
        skipped: The number of rows above the first one of values, of which a comment or a blank line is one.
        names: Of the columns; ``column 1`` and so on where there is no header, or no name in it.
        has_header: Whether the first line has names.
    """

    delimiter: str
    skipped: int
    names: tuple[str, ...]
    has_header: bool

    def sql(self, files: Sequence[str]) -> str:
        """What reads these files, as text, in DuckDB."""
        columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(self.names)))
        form = f"""auto_detect = false, header = false, skip = {self.skipped}, delim = {quoted(self.delimiter)}, quote = '"'"""
        return f"""read_csv([{", ".join(files)}], {form}, escape = '"', columns = {{{columns}}}, hive_partitioning = false)"""


def ending_of(path: str) -> str:
    """How a file's name ends, in lower case and without that of gzip."""
    return Path(re.sub(r"(?i)\.gz$", "", path)).suffix.lower()


def check_encoding(name: str) -> None:
    """Raise unless it is an encoding of text that Python knows."""
    try:
        if "a\n".encode(name).decode(name) == "a\n":
            return
    except (LookupError, ValueError):
        pass
    near = did_you_mean(name, _KNOWN_ENCODINGS)
    raise DataError(f"{option('encoding')}: unknown '{one_line(name, 80)}'; {near}such as {', '.join(_KNOWN_ENCODINGS)}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of a file that cannot be read, or unpacked, are one line."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: it cannot be read: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def in_plain_text(files: Sequence[str], encoding: str | None, folder: Path) -> Iterator[list[str]]:
    """Files in UTF-8 whose lines end as usual: these, or copies in a folder that is removed at the end. Errors name these."""
    copies = list(files)
    try:
        for number, file in enumerate(files):
            path = Path(file)
            with reading(path), open_bytes(path) as content:
                first = content.read(_SEEN_BYTES)
            marked = next((name for mark, name in _MARKS.items() if first.startswith(mark)), "utf-8")
            given = encoding or marked
            is_utf_8 = codecs.lookup(given).name.startswith("utf-8")
            if not is_utf_8 or _is_odd(first):
                # A name of its own, without the ending of what it was packed with.
                place = folder / str(number)
                place.mkdir(parents=True)
                copies[number] = str(place / path.name.removesuffix(path.suffix if path.suffix.lower() == ".gz" else ""))
                _copy(path, given, Path(copies[number]))
        yield copies
    except DataError as error:
        message = str(error)
        for copy, file in zip(copies, files, strict=True):
            message = message.replace(copy, file)
        raise DataError(message) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_odd(first: bytes) -> bool:
    """Whether DuckDB cannot read a file in UTF-8 by its first bytes: for its line ends, or as JSON after a mark."""
    is_mixed = b"\r\n" in first and _PLAIN_LINE_END.search(first) is not None
    is_json = first.startswith((codecs.BOM_UTF8 + b"[", codecs.BOM_UTF8 + b"{"))
    return is_mixed or is_json or _STRANGE_LINE_END.search(first) is not None


def _copy(path: Path, encoding: str, copy: Path) -> None:
    decoder, lines, held, part = codecs.getincrementaldecoder(encoding)(), 1, "", b"\n"
    with reading(path), open_bytes(path) as file, copy.open("wb") as out:
        while part:
            part = file.read(_SEEN_BYTES)
            try:
                text = held + decoder.decode(part, final=not part)
                # A line end may be cut.
                plain = text.rstrip("\r\n") if part else text
                held = text[len(plain) :]
                plain = _usual_line_ends(plain)
                out.write(plain.encode())
            except UnicodeError as error:
                with suppress(UnicodeError, AttributeError):
                    lines += error.object[: error.start].decode(encoding, "ignore").count("\n")  # type: ignore[attr-defined]
                cure = f"name its encoding, such as {option('encoding', 'cp1252')}"
                raise DataError(f"{path}: line {lines:,}: it is not text in {encoding.upper()}; {cure}") from None
            lines += plain.count("\n")


def _usual_line_ends(text: str) -> str:
    return re.sub("\r\r\n|\r\n|\r", "\n", text)


# -- the first rows ---------------------------------------------------------------------------------------------------


def read_head(path: Path, known: Collection[str], header: bool | None) -> Head | None:
    """What the first rows of a file in UTF-8 tell; None of one that is empty.

    The first line is a header if one of its names is ``known``, in lower case, or ends in ``id``; else as ``header`` says; else
    as the rows below tell.
    """
    text, is_whole = _first_text(path)
    skipped, start, first = 0, 0, ""
    for line in io.StringIO(text, newline=""):
        if line.strip() and not line.startswith(_COMMENT_SIGNS):
            first = line.rstrip("\r\n")
            break
        skipped, start = skipped + 1, start + len(line)
    if not first:
        return None
    delimiter = max(_DELIMITERS, key=lambda each: (first.count(each), -_DELIMITERS.index(each)))
    if not first.count(delimiter):
        delimiter = ","
    _check_long_lines(path)
    comments, rows, numbers, number = _reader(text[:start], delimiter), list[list[str]](), list[int](), 1
    reader = _reader(text[start:], delimiter)
    try:
        if sum(1 for _ in comments) < skipped:
            raise DataError(f"{path}: a quote is opened in the comments above its first row, and DuckDB reads on; remove it")
        for row in reader:
            if row:
                rows.append([value.strip() for value in row])
                numbers.append(number)
            number = reader.line_num + 1
            if len(rows) > _SEEN_ROWS:
                break
    except csv.Error as error:
        if not rows:
            raise DataError(f"{path}: its first line cannot be read: {error}") from None
    if not is_whole and len(rows) < 2:
        raise DataError(f"{path}: its first line is longer than {_SEEN_BYTES:,} bytes")
    names, below = rows[0], rows[1:] if is_whole else rows[1:-1]
    for row, number in zip(below, numbers[1:], strict=False):
        if len(row) != len(names):
            counts = f"it has {plural(len(row), 'column')}, and the first row has {len(names):,}"
            raise DataError(f"{path}: line {skipped + number:,}: {counts}")
    has_header = _is_header(names, below, known, header)
    if has_header is None:
        line = one_line(first, 100)
        either = f"{option('header', True)} or {option('header', False)}"
        raise DataError(f"{path}: its first line, '{line}', may be a header or a row; say which: {either}")
    given = [name if has_header else "" for name in names]
    columns = tuple(name or f"column {place}" for place, name in enumerate(given, 1))
    check_names(columns, str(path))
    return Head(delimiter, skipped + has_header, columns, has_header)


def _reader(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter != " ")


def _check_long_lines(path: Path) -> None:
    """Raise if the last line is longer than DuckDB reads: one that does not fit its buffer it leaves out without a word."""
    if path.suffix.lower() == ".gz" or path.stat().st_size <= _LONGEST_LINE_BYTES:
        return
    with reading(path), path.open("rb") as file:
        file.seek(-_LONGEST_LINE_BYTES, io.SEEK_END)
        if b"\n" not in file.read().rstrip():
            raise DataError(f"{path}: its last line is longer than a line may be, {_LONGEST_LINE_BYTES:,} bytes")


def _is_header(names: list[str], below: list[list[str]], known: Collection[str], header: bool | None) -> bool | None:
    if header is not None:
        return header
    if any(plain in known or ID_NAME.search(name) for name, plain in zip(names, map(str.casefold, names), strict=True)):
        return True
    columns = [[row[place] for row in below if row[place]] for place in range(len(names))]
    are_numbers = [bool(values) and all(map(_NUMBER.fullmatch, values)) for values in columns]
    if any(is_number and _NUMBER.fullmatch(name) for name, is_number in zip(names, are_numbers, strict=True)):
        return False
    if any(name and name in values for name, values in zip(names, columns, strict=True)):
        return False
    if any(is_number and name for name, is_number in zip(names, are_numbers, strict=True)):
        return True
    return None


def _first_text(path: Path) -> tuple[str, bool]:
    """The text of a file's first bytes, and whether these are all."""
    with reading(path), open_bytes(path) as file:
        content = file.read(_SEEN_BYTES)
    is_whole = len(content) < _SEEN_BYTES
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=is_whole)
    except UnicodeDecodeError as error:
        lines = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}: line {lines:,}: {NOT_UTF_8}, such as {option('encoding', 'cp1252')}") from None
    if "\0" in text:
        raise DataError(f"{path}: line {text[: text.index(chr(0))].count(chr(10)) + 1:,}: it is not text: it has a zero byte")
    return text, is_whole


def check_names(columns: Sequence[str], name: str) -> None:
    """Raise if two columns have one name."""
    seen: dict[str, str] = {}
    for column in columns:
        if (plain := column.strip().casefold()) in seen:
            both = f"'{one_line(seen[plain], 40)}' and '{one_line(column, 40)}'"
            raise DataError(f"{name}: two of its columns have one name, {both}; rename one")
        seen[plain] = column

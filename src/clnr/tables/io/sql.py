"""A DuckDB connection, quoting for SQL, and queries whose errors are one line."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import uuid4

from clnr.errors import DataError, one_line, option

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from clnr.graph.csr import Array

Connection: TypeAlias = "DuckDBPyConnection"
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
WHOLE = (*_WHOLE, *(f"U{kind}" for kind in _WHOLE))
FLOATS = ("DOUBLE", "FLOAT", "REAL", "DECIMAL")
NUMBERS = (*WHOLE, *FLOATS)
DATETIMES = ("DATE", "TIMESTAMP")
NESTED = ("STRUCT", "MAP", "UNION", "BLOB", "BIT", "GEOMETRY", "VARIANT")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "None", r"\N")
"""The words for a missing value, in every column; DuckDB writes NaN as ``nan``."""
# Of Unicode's other ones, DuckDB takes four times as long.
_BLANKS = " \t\r\n"

# Rows of a chunk of an Arrow table, whose text must not exceed 2 GiB, and of a batch that is streamed.
_CHUNK_ROWS, _STREAMED_ROWS = 1 << 16, 1 << 19
_QUERY_COLUMNS = 100
# The bits of a number that is added up as a whole one: sums of 2^31 of their squares, or of numbers of more bits, have 127.
_SUM_BITS, _MOST_SUM_BITS = 47, 95
# What is smaller is 0 in float32, and one divided by it infinite.
_LEAST_SUMMAND = 2.0**-300

# Nothing is downloaded, no extension is loaded, no Python variable is a table, and times do not depend on the machine.
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "TimeZone": "'UTC'",
    # It makes a join of each list of more than a few words, and of many columns so many that planning them takes minutes.
    "disabled_optimizers": "'in_clause'",
}


class Column(NamedTuple):
    """A column of a table: its name in SQL, which is its position and never the user's name, and its type in DuckDB."""

    sql: str
    kind: str

    def is_of(self, kinds: Sequence[str]) -> bool:
        """Whether it holds single values of some types."""
        return self.kind.startswith(tuple(kinds)) and not self.kind.endswith("]")

    @property
    def is_single(self) -> bool:
        """Whether it holds neither lists nor other nested values."""
        return not self.kind.endswith("]") and not self.kind.startswith(NESTED)


def connect(memory: str | None = None, spill: Path | None = None) -> Connection:
    """A new connection, whose settings no query can change.

    What exceeds a limit on memory, such as ``4 GB``, is spilled to disk: to a folder, or among the system's temporary files.
    """
    import duckdb

    db = duckdb.connect(":memory:")
    folder = Path(tempfile.gettempdir(), f"clnr-{uuid4().hex}") if spill is None else spill
    for name, value in {**_SETTINGS, "temp_directory": quoted(str(folder))}.items():
        db.execute(f"SET {name} = {value}")
    if memory is not None:
        try:
            db.execute(f"SET memory_limit = {quoted(memory)}")
        except Exception:
            db.close()
            raise DataError(f"{option('memory')} must be an amount such as '4 GB', not '{memory}'") from None
    db.execute("SET lock_configuration = true")
    return db


def copies_folder(spill: Path) -> Path:
    """A folder for copies of what DuckDB cannot read as it is, beside the one that it spills to."""
    return spill.with_name(f"{spill.name}-copies")


def spill_folder(db: Connection) -> Path:
    """Where a connection spills to."""
    ((spill,),) = db.execute("SELECT current_setting('temp_directory')").fetchall()
    return Path(spill)


# -- expressions ------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Text as a string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Any text as the name of a table in SQL."""
    return '"' + name.replace('"', '""') + '"'


def trimmed(c: str) -> str:
    """An expression as text without the blanks around it."""
    return f"trim(CAST({c} AS VARCHAR), {quoted(_BLANKS)})"


MISSING_WORDS = f"({', '.join(map(quoted, MISSING))})"
"""These words in SQL, as a list behind IN."""


def as_text(c: str) -> str:
    return f"CAST({c} AS VARCHAR)"


def plain_id(c: str) -> str:
    """An id in SQL, as text: ``14226.0`` is ``14226``."""
    text = as_text(c)
    plain = f"regexp_replace({text}, '^(-?(0|[1-9][0-9]*))\\.0$', '\\1')"
    return f"CASE WHEN suffix({text}, '.0') THEN {plain} ELSE {text} END"


def whole_sums(value: str, low: float, high: float) -> tuple[str, str]:
    """The sums of a number and of its square, from 0 at ``low`` to 2^47 at ``high``, as whole numbers.

    These are the same in any order, which threads decide; the sum of floating-point numbers is not.
    """
    whole = f"CAST(({value} - ({low!r}::DOUBLE)) * ({2.0**_SUM_BITS / (high - low or 1.0)!r}::DOUBLE) AS HUGEINT)"
    return f"sum({whole})", f"sum({whole} * {whole})"


def same_sum(db: Connection, value: str, rows: str, name: str) -> tuple[str, str]:
    """What adds up numbers from 0 on of some rows in SQL, with the same result in any order; and the unit of that.

    The unit is a power of 2, so that numbers that are not 2^42 times smaller than the largest are added up exactly.
    """
    ((largest,),) = run(db, f"SELECT max({value}) FROM {rows}", name)
    unit = 2.0 ** (math.frexp(max(largest or 1.0, _LEAST_SUMMAND))[1] - _MOST_SUM_BITS)
    return f"sum(CAST({value} * ({1 / unit!r}::DOUBLE) AS HUGEINT))", f"({unit!r}::DOUBLE)"


# -- queries ----------------------------------------------------------------------------------------------------------


def run(db: Connection, sql: str, name: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a query; an error becomes one line that names the table, and its line if there is one."""
    return _guarded(lambda: db.execute(sql, values).fetchall(), name)


def fetch_columns(db: Connection, selected: Sequence[str], rows: str, name: str) -> list[Any]:
    """Columns of rows that are in order, as Arrow arrays in chunks: of a wide table, some columns at a time.

    Sorting very many at once takes DuckDB longer than sorting them in parts.
    """
    parts = (selected[first : first + _QUERY_COLUMNS] for first in range(0, len(selected), _QUERY_COLUMNS))
    return [column for part in parts for column in fetch_table(db, f"SELECT {', '.join(part)} FROM {rows}", name).columns]


def fetch_table(db: Connection, sql: str, name: str) -> Any:
    return _guarded(lambda: db.sql(sql).to_arrow_table(_CHUNK_ROWS), name)


def fetch_numpy(db: Connection, sql: str, name: str) -> dict[str, Array]:
    """The columns of a query without nulls, as NumPy arrays."""
    import numpy as np

    columns = _guarded(lambda: db.execute(sql).fetchnumpy(), name)
    return {column: np.ma.getdata(values) for column, values in columns.items()}


def stream_arrow(db: Connection, sql: str, name: str) -> Iterator[list[Any]]:
    """The columns of a query as Arrow arrays, in batches of rows; no other query may run until all are read."""

    def open_reader() -> Any:
        relation = db.sql(sql)
        # DuckDB 2.0 has another name for it.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        return read(_STREAMED_ROWS)

    reader = _guarded(open_reader, name)
    while (batch := _guarded(lambda: next(reader, None), name)) is not None:
        yield batch.columns


def _guarded(query: Callable[[], Any], name: str) -> Any:
    import duckdb

    try:
        return query()
    except duckdb.OutOfMemoryException:
        raise DataError(f"{name}: there is not enough memory to read it; allow more, or free disk space") from None
    except MemoryError:
        raise
    except Exception as error:
        if "Query interrupted" in str(error):  # DuckDB's error for Ctrl-C.
            raise KeyboardInterrupt from None
        # Not only DuckDB's errors: text that is not Unicode fails in Python.
        raise DataError(_in_one_line(str(error), name)) from None


_LINE = re.compile(r"CSV Error on Line: (\d+)")
_FILE = re.compile(r"^  file ?= ?(.+)$", re.MULTILINE)
_COLUMNS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_DELIMITER = re.compile(r"^  delimiter = (.+?) \(Set", re.MULTILINE)
_ASIDE = re.compile(r"\n\s*(LINE \d+:|Possible |Original Line|Candidate |Did you mean|\* )")
_LARGEST_FILE_BYTES = 1 << 26
NOT_UTF_8 = "it is not text in UTF-8; name its encoding"
_REASONS = {
    "unterminated quote": "a quote is opened and not closed",
    "not utf-8": NOT_UTF_8,
    "nvalid unicode": NOT_UTF_8,
    "Maximum line size": "it is longer than a line may be, 2,000,000 bytes",
    "support a full read": "a line is longer than a line may be, 2,000,000 bytes",
    "maximum_object_size": "a row is longer than it may be in JSON, 16,777,216 bytes; Parquet has no such limit",
    "No magic bytes": "it is not a Parquet file, or is truncated",
    "too small to be a Parquet": "it is not a Parquet file, or is truncated",
    "ecompression failure": "it is damaged: a part of it cannot be unpacked",
    "end of GZIP stream": "it is damaged: it ends too early",
    "state machine": "its quotes or line breaks are inconsistent",
    "TType": "it is damaged: its footer cannot be read",
    "Footer length": "it is damaged: its footer cannot be read",
    "know what type": "it is damaged: its footer cannot be read",
    "No files found": "there is no such file",
    "requires the extension": "it is not on this machine: only local files are read",
}


def _in_one_line(message: str, name: str) -> str:
    """What DuckDB's message says about a table: the file, the line if there is one, and the reason."""
    file, line = _FILE.search(message), _LINE.search(message)
    place, at = file[1] if file else name, f"line {int(line[1]):,}: " if line else ""
    # The message quotes the wrong line, whose content must not be mistaken for the message.
    body = message[message.index("\n", line.end()) :] if line and "\n" in message[line.end() :] else message
    if "Malformed JSON" in message:
        reason = _json_error(place) or "it is not JSON"
    elif line and (counts := _COLUMNS.findall(body)):
        sign = _DELIMITER.search(message)
        found = _fields(place, int(line[1]), sign[1] if sign else ",") or counts[-1][1]
        reason = f"it has {found} columns, and the first row has {counts[-1][0]}"
    else:
        plain = re.sub(r"^[A-Z][\w ]*Error: ", "", _ASIDE.split(message)[0])
        reason = next((reason for sign, reason in _REASONS.items() if sign in body), plain)
    reason = f"{reason}, such as {option('encoding', 'cp1252')}" if reason == NOT_UTF_8 else reason
    return f"{one_line(place)}: {one_line(at + reason)}"


def _fields(path: str, number: int, delimiter: str) -> int | None:
    """How many fields a line of a file has, as DuckDB stops to count at the first too many; None if that is not plain."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as lines:
            for at, line in enumerate(lines, 1):
                if at == number:
                    return len(next(csv.reader([line], delimiter=delimiter)))
    except (OSError, ValueError, csv.Error, StopIteration, TypeError):
        pass
    return None


def open_bytes(path: Path) -> Any:
    """A file, or what is packed in it by gzip."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _json_error(path: str) -> str | None:
    """Where a JSON file is broken; DuckDB counts lines in another way."""
    try:
        with open_bytes(Path(path)) as file:
            content = file.read(_LARGEST_FILE_BYTES)
        text = content.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error):
        return None
    except UnicodeDecodeError as error:
        lines = error.object[: error.start].count(b"\n") + 1
        return f"line {lines:,}: {NOT_UTF_8}"
    place = 0
    while len(content) < _LARGEST_FILE_BYTES and (more := re.compile(r"\S").search(text, place)):
        try:
            place = json.JSONDecoder().raw_decode(text, more.start())[1]
        except json.JSONDecodeError as error:
            return f"line {error.lineno:,}: it is not JSON: {error.msg.removesuffix(' at')} at column {error.colno:,}"
        except RecursionError:
            return None
    return None

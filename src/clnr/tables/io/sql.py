"""A DuckDB connection, quoting for SQL, and queries whose errors are one line."""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from clnr.errors import DataError, one_line, option
from clnr.tables.io.encodings import line_at, not_utf_8, open_bytes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from clnr.graph.csr import Array

Connection: TypeAlias = "DuckDBPyConnection"
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*_WHOLE, *(f"U{kind}" for kind in _WHOLE), "DOUBLE", "FLOAT", "REAL", "DECIMAL")
FLOATS = ("DOUBLE", "FLOAT", "REAL", "DECIMAL")
DATETIMES = ("DATE", "TIMESTAMP")
MISSING_WORDS = {"unknown", "not known", "missing", "not available", "unbekannt", "keine angabe", "k. a.", "k.a.", "inconnu"}
MISSING_WORDS |= {"desconocido", "n/a", "na", "nan", "none", "null", "nil", "?", "-", "--", "."}
"""Words for a missing value, in lower case."""

# Rows of a chunk of an Arrow table, whose text must not exceed 2 GiB.
_CHUNK_ROWS = 1 << 16
_QUERY_COLUMNS = 300
_STREAMED_ROWS = 1 << 19

# Nothing is downloaded, no extension is loaded, no Python variable is a table, and times do not depend on the machine.
_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "TimeZone": "'UTC'",
}


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


def decoded_folder(db: Connection) -> Path:
    """A folder for what a connection cannot read as it is, beside the one that it spills to."""
    ((spill,),) = db.execute("SELECT current_setting('temp_directory')").fetchall()
    return spill_folders(Path(spill))[1]


def spill_folders(spill: Path) -> tuple[Path, Path]:
    """All folders that a connection may make, given the one that it spills to."""
    return spill, spill.with_name(f"{spill.name}-decoded")


def quoted(text: str) -> str:
    """Text as a string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def double(number: float) -> str:
    """A number as a literal of SQL; without an exponent it would be a decimal number, which is rounded once more."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


def trimmed(c: str) -> str:
    """The trimmed text of an SQL expression; empty text is NULL."""
    return f"nullif(trim(CAST({c} AS VARCHAR)), '')"


def is_missing(text: str) -> str:
    """Whether trimmed text is a word for a missing value, in SQL."""
    return f"lower({text}) IN ({', '.join(map(quoted, sorted(MISSING_WORDS)))})"


def stated(c: str) -> str:
    """The trimmed text of an SQL expression; words for a missing value are NULL, too, as in a column of numbers or dates."""
    return f"CASE WHEN NOT {is_missing(trimmed(c))} THEN {trimmed(c)} END"


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
        raise DataError(_format_error(str(error), name)) from None


def is_code(text: str) -> str:
    """Whether text is digits with a leading zero, as of codes such as 01067, in SQL."""
    return f"regexp_full_match({text}, '0[0-9]+')"


def looks_like_datetime(text: str) -> str:
    """Whether text is a date or time of ISO 8601, or such as 2020/1/31, in SQL."""
    pattern = "^[0-9]{4}(-[0-9]{2}-[0-9]{2}|/[0-9]{1,2}/[0-9]{1,2})"
    return f"regexp_matches({text}, {quoted(pattern)}) AND TRY_CAST({text} AS TIMESTAMP) IS NOT NULL"


# -- errors -------------------------------------------------------------------------------------------------------

_LINE_PATTERN = re.compile(r"CSV Error on Line: (\d+)")
_FILE_PATTERN = re.compile(r"^  file ?= ?(.+)$", re.MULTILINE)
_COLUMNS_PATTERN = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_ASIDE_PATTERN = re.compile(r"\n\s*(LINE \d+:|Possible |Original Line|Candidate |Did you mean|\* )")
_TEXT_PATTERN = re.compile(r"\S")
_LARGEST_FILE_BYTES = 1 << 26
_REASONS = {
    "unterminated quote": "a quote is opened and not closed; read_csv('FILE', quote = '') in a query reads it as text",
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
    "encodings extension": "it names an encoding that DuckDB does not know; leave that out, and set its encoding",
    "requires the extension": "it is not on this machine: only local files are read",
}


def _format_error(message: str, name: str) -> str:
    """What DuckDB's message says about a table: the file, the line if there is one, and the reason."""
    file = _FILE_PATTERN.search(message)
    place = file[1] if file else name
    line = _LINE_PATTERN.search(message)
    # The message quotes the wrong line, whose content must not be mistaken for the message.
    body = message[message.index("\n", line.end()) :] if line and "\n" in message[line.end() :] else message
    counts = _COLUMNS_PATTERN.findall(body)
    if "Malformed JSON" in message:
        reason = _json_error(place) or "it is not JSON"
    elif counts:
        expected, there = map(int, counts[-1])
        # DuckDB stops counting at the first column too many.
        many = f"more than {expected} columns" if there > expected else "1 column" if there == 1 else f"{there} columns"
        reason = f"it has {many} instead of {expected}"
    elif "not utf-8" in body or "nvalid unicode" in body:
        reason = not_utf_8()
    else:
        plain = re.sub(r"^[A-Z][\w ]*Error: ", "", _ASIDE_PATTERN.split(message)[0])
        reason = next((reason for sign, reason in _REASONS.items() if sign in body), plain)
    at = f"line {int(line[1]):,}: " if line else ""
    return f"{one_line(place)}: {one_line(at + reason)}"


def _json_error(path: str) -> str | None:
    """Where a JSON file is broken; DuckDB counts lines in another way."""
    try:
        with open_bytes(Path(path)) as file:
            content = file.read(_LARGEST_FILE_BYTES)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return f"{line_at(error.object, error.start)}: {not_utf_8()}"
    except (OSError, EOFError, zlib.error):
        return None
    place = 0
    while len(content) < _LARGEST_FILE_BYTES and (next_value := _TEXT_PATTERN.search(text, place)):
        try:
            place = json.JSONDecoder().raw_decode(text, next_value.start())[1]
        except json.JSONDecodeError as error:
            return f"line {error.lineno:,}: it is not JSON: {error.msg.removesuffix(' at')} at column {error.colno:,}"
        except RecursionError:
            return None
    return None

"""DuckDB's errors as one line about a table, without advice for those who write SQL."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable

from clnr.errors import DataError, one_line

_LINE_PATTERN = re.compile(r"CSV Error on Line: (\d+)")
_FILE_PATTERN = re.compile(r"^  file ?= ?(.+)$", re.MULTILINE)
_COLUMNS_PATTERN = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_ASIDE_PATTERN = re.compile(r"\n\s*(LINE \d+:|Possible |Original Line|Candidate |Did you mean|\* )")
_TEXT_PATTERN = re.compile(r"\S")
_LARGEST_FILE_BYTES = 1 << 26
_REASONS = {
    "not utf-8": "it is not text in UTF-8",
    "nvalid unicode": "it is not text in UTF-8",
    "unterminated quote": "a quote is opened and not closed",
    "Maximum line size": "it is longer than a line may be, 2,000,000 bytes",
    "support a full read": "a line is longer than a line may be, 2,000,000 bytes",
    "maximum_object_size": "a row is longer than it may be in JSON, 16,777,216 bytes; Parquet has no such limit",
    "No magic bytes": "it is no Parquet file, or only a part of one",
    "too small to be a Parquet": "it is no Parquet file, or only a part of one",
    "ecompression failure": "it is damaged: a part of it cannot be unpacked",
    "end of GZIP stream": "it is damaged: it ends too early",
    "state machine": "its quotes or line breaks are inconsistent",
    "TType": "it is damaged: its footer cannot be read",
    "Footer length": "it is damaged: its footer cannot be read",
    "know what type": "it is damaged: its footer cannot be read",
    "No files found": "there is no such file",
    "requires the extension": "it is not on this machine: only local files are read",
}


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


def format_duckdb_error(message: str, name: str) -> str:
    """What DuckDB's message says about a table: the file, the line if there is one, and the reason."""
    file = _FILE_PATTERN.search(message)
    place = file[1] if file else name
    line = _LINE_PATTERN.search(message)
    # The message quotes the wrong line, whose content must not be mistaken for the message.
    body = message[message.index("\n", line.end()) :] if line and "\n" in message[line.end() :] else message
    counts = _COLUMNS_PATTERN.findall(body)
    if "Malformed JSON" in message:
        reason = _json(place) or "it is no JSON"
    elif counts:
        expected, there = counts[-1]
        # DuckDB stops counting at the first column too many.
        many = f"more than {expected} columns" if int(there) > int(expected) else _columns(there)
        reason = f"it has {many}, where {expected} are expected"
    else:
        known = [reason for sign, reason in _REASONS.items() if sign in body]
        plain = re.sub(r"^[A-Z][\w ]*Error: ", "", _ASIDE_PATTERN.split(message)[0])
        reason = known[0] if known else plain
    at = f"line {int(line[1]):,}: " if line else ""
    return f"{one_line(place)}: {one_line(at + reason)}"


def _columns(count: str) -> str:
    return "1 column" if count == "1" else f"{count} columns"


def _json(path: str) -> str | None:
    """Where a JSON file is broken; DuckDB counts lines in another way."""
    try:
        with (gzip.open if path.lower().endswith(".gz") else open)(path, "rb") as file:
            content = file.read(_LARGEST_FILE_BYTES)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return f"line {content.count(10, 0, error.start) + 1:,}: it is not text in UTF-8"
    except (OSError, EOFError, zlib.error):
        return None
    place = 0
    while len(content) < _LARGEST_FILE_BYTES and (next_value := _TEXT_PATTERN.search(text, place)):
        try:
            place = json.JSONDecoder().raw_decode(text, next_value.start())[1]
        except json.JSONDecodeError as error:
            return f"line {error.lineno:,}: it is no JSON: {error.msg.removesuffix(' at')} at column {error.colno:,}"
        except RecursionError:
            return None
    return None

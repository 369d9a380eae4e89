"""A query as a table: one SELECT that only reads."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from clnr.errors import DataError
from clnr.tables.io.sql import Connection, identifier, quoted, run
from clnr.tables.io.text_files import ending_of

_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "RECURSIVE_CTE_NODE"}
_FILES = {"read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto", "read_text"}
READERS = _FILES | {"read_parquet", "parquet_scan", "read_blob", "glob", "json_each", "json_tree"}
READERS |= {"range", "generate_series", "repeat", "unnest"}
"""The functions that may stand after FROM in a query."""
# What reads files whose names do not tell DuckDB the format.
_READER_OF = {**dict.fromkeys((".txt", ".dat", ".edges", ".edgelist"), "read_csv"), ".pq": "read_parquet"}


def file_in_sql(path: str) -> str:
    """What to write after FROM to read a file."""
    reader = _READER_OF.get(ending_of(path))
    return f"{reader}({quoted(path)})" if reader else quoted(path)


def run_query(db: Connection, query: str, role: str) -> tuple[str, str, bool]:
    """Run a query once: its name, the relation of its rows, and whether it orders them; else they are sorted, to come alike."""
    sql, name, into = query.strip().rstrip(";"), f"the query of {role}", identifier(f"{role} query")
    parsed = _check(db, sql, name)
    in_order = has_order(parsed)
    # In a subquery DuckDB itself refuses to write as well.
    run(db, f"CREATE TEMP TABLE {into} AS SELECT * FROM ({sql}\n) {'' if in_order else 'ORDER BY ALL'}", name)
    return name, into, in_order


def has_order(parsed: dict[str, Any]) -> bool:
    """Whether a parsed query ends with ORDER BY."""
    return any(each["type"] == "ORDER_MODIFIER" for each in parsed["statements"][0]["node"]["modifiers"])


def _check(db: Connection, sql: str, name: str) -> dict[str, Any]:
    """Raise unless it is one SELECT. DuckDB's own parser decides: a SELECT may hold a COPY in a WITH. Returns it parsed."""
    ((text,),) = run(db, "SELECT json_serialize_sql(?::VARCHAR)", name, [sql])
    try:
        parsed: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise DataError(f"{name}: it is nested too deeply") from None
    if parsed["error"] and parsed["error_type"] == "parser":
        raise DataError(f"{name}: it cannot be read as SQL: {parsed['error_message']}")
    if parsed["error"] or len(parsed["statements"]) != 1:
        raise DataError(f"{name}: a query is one SELECT and nothing else")
    for value in _values(parsed["statements"][0]):
        if isinstance(value, str):
            _check_no_pipe(value)
        if not isinstance(value, dict):
            continue
        kind = str(value.get("type"))
        if kind.endswith("_NODE") and kind not in _NODES:
            raise DataError(f"{name}: a query may only read, also within WITH")
        if kind == "TABLE_FUNCTION" and (function := value["function"]["function_name"].lower()) not in READERS:
            raise DataError(f"{name}: a query cannot select from {function}(), only from {', '.join(sorted(READERS))}")
        if kind == "BASE_TABLE" and ending_of(file := value["table_name"]) in _READER_OF:
            raise DataError(f"{name}: DuckDB does not know the format of {quoted(file)} by its name; write {file_in_sql(file)}")
    return parsed


def _check_no_pipe(text: str) -> None:
    """Raise if a text names a pipe or a device, which opened could wait forever."""
    with suppress(OSError, ValueError):
        mode = Path(text).stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DataError(f"{text}: it is a pipe or a device, and a table is read more than once; save it to a file first")


def _values(tree: Any) -> Iterator[Any]:
    """All values in one of JSON, at any depth."""
    left = [tree]
    while left:
        yield (each := left.pop())
        if isinstance(each, dict | list):
            left.extend(each.values() if isinstance(each, dict) else each)

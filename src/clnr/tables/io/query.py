"""A query as a table: one SELECT that only reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from clnr.errors import DataError
from clnr.tables.io.source import Table, describe, with_fields
from clnr.tables.io.sql import Connection, quoted, run
from clnr.tables.io.table_files import check_no_pipe

_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "RECURSIVE_CTE_NODE"}
_TABLES = {"read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_text", "read_blob"}
_JSON = {"read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto"}
_FILES = _TABLES | _JSON
READERS = _FILES | {"glob", "json_each", "json_tree", "range", "generate_series", "repeat", "unnest"}
"""The functions that may stand after FROM in a query."""


def query_table(db: Connection, query: str, what: str) -> Table:
    """The result of a query, which is run once."""
    sql, name = query.strip().rstrip(";"), f"the query of {what}"
    _check(db, sql, name)
    # In a subquery DuckDB itself refuses to write as well.
    run(db, f"CREATE TEMP TABLE {what}_query AS SELECT * FROM ({sql}\n)", name)
    return with_fields(db, describe(db, name, f"{what}_query"))


def _check(db: Connection, sql: str, name: str) -> None:
    """Raise unless it is one SELECT. DuckDB's own parser decides: a SELECT may hold a COPY in a WITH."""
    ((text,),) = run(db, "SELECT json_serialize_sql(?::VARCHAR)", name, [sql])
    try:
        parsed = json.loads(text)
    except RecursionError:
        raise DataError(f"{name}: it is nested too deeply") from None
    if parsed["error"] and parsed["error_type"] == "parser":
        raise DataError(f"{name}: it cannot be read as SQL: {parsed['error_message']}")
    if parsed["error"] or len(parsed["statements"]) != 1:
        raise DataError(f"{name}: a query is one SELECT and nothing else")
    for each in _objects(parsed["statements"][0]):
        kind = str(each.get("type"))
        if kind.endswith("_NODE") and kind not in _NODES:
            raise DataError(f"{name}: a query only reads, also within WITH")
        if kind == "TABLE_FUNCTION" and (function := each["function"]["function_name"].lower()) not in READERS:
            raise DataError(f"{name}: a query cannot select from {function}(), only from {', '.join(sorted(READERS))}")
        for file in _files(db, each, kind):
            check_no_pipe(file)


def _files(db: Connection, source: dict[str, Any], kind: str) -> list[str]:
    """The files that a source of rows would open, as DuckDB finds them; none is opened."""
    if kind == "BASE_TABLE":
        listed = [f"glob({quoted(source['table_name'])})"]
    elif kind == "TABLE_FUNCTION" and source["function"]["function_name"].lower() in _FILES:
        ((text,),) = run(db, "SELECT json_serialize_sql('SELECT file FROM glob(NULL)')", "glob")
        plan = json.loads(text)
        function = next(each["function"] for each in _objects(plan) if each.get("type") == "TABLE_FUNCTION")
        # What holds the arguments has another name before DuckDB 2.0.
        key, listed = "arguments" if "arguments" in function else "children", []
        for argument in source["function"][key]:
            function[key] = [argument]
            listed.append(f"json_execute_serialized_sql({quoted(json.dumps(plan))})")
    else:
        return []
    files: list[str] = []
    for sql in listed:
        # An argument that names no files is an option, or an error that the query itself will tell.
        with contextlib.suppress(DataError):
            files += [file for (file,) in run(db, f"SELECT file FROM {sql}", "glob")]
    return files


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value, at any depth."""
    left = [tree]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield each
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)

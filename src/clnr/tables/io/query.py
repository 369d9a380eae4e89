"""A query as a table: one SELECT that only reads."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from clnr.errors import DataError
from clnr.tables.io.encodings import in_utf_8, unpacked
from clnr.tables.io.source import Table, describe, with_fields
from clnr.tables.io.sql import Connection, decoded_folder, quoted, run
from clnr.tables.io.table_files import JSON_ENDINGS, TEXT_ENDINGS, check_no_pipe, ending_of, escaped

_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "RECURSIVE_CTE_NODE"}
_TEXTS = {"read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto", "read_text"}
_FILES = _TEXTS | {"read_parquet", "parquet_scan", "read_blob"}
READERS = _FILES | {"glob", "json_each", "json_tree", "range", "generate_series", "repeat", "unnest"}
"""The functions that may stand after FROM in a query."""
# What reads files whose names do not tell DuckDB the format.
_READER_OF = {".txt": "read_csv", ".edges": "read_csv", ".edgelist": "read_csv", ".pq": "read_parquet"}
# Of parsed queries: what may give rows in another order the next time, since several threads share the work.
_UNORDERED = {"JOIN", "DISTINCT_MODIFIER", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"}
_UNORDERED_CLAUSES = ("group_expressions", "partitions", "orders", "sample")


def query_table(db: Connection, query: str, what: str, encoding: str | None = None, ordered: bool = False) -> Table:
    """The result of a query, which is run once; text files that it names are read as those of tables are.

    Rows that may come in another order the next time are sorted; or that is an error, if they must be ``ordered``.
    """
    sql, name = query.strip().rstrip(";"), f"the query of {what}"
    into = '"' + f"{what} query".replace('"', '""') + '"'
    parsed = _check(db, sql, name)
    order = "" if _keeps_order(parsed["statements"][0]["node"]) else "ORDER BY ALL"
    if ordered and order:
        raise DataError(f"{name}: end it with ORDER BY: its rows have no fixed order, and row i of the matrix belongs to row i")
    with _decoded(db, parsed, encoding) as (changed, found):
        if changed:
            ((sql,),) = run(db, "SELECT json_deserialize_sql(?::JSON)", name, [json.dumps(parsed)])
        # In a subquery DuckDB itself refuses to write as well.
        run(db, f"CREATE TEMP TABLE {into} AS SELECT * FROM ({sql}\n) {order}", name)
    return replace(with_fields(db, describe(db, name, into)), encoding=found)


@contextlib.contextmanager
def _decoded(db: Connection, parsed: Any, encoding: str | None) -> Iterator[tuple[bool, str]]:
    """Copies in UTF-8 take the place of text files in a parsed query; and the encoding that was found, as ``in_utf_8`` has it.

    A function that says how its file is encoded is left alone.
    """
    folder, found, count = decoded_folder(db), "", 0
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for source in list(_objects(parsed)):
            is_reader = source.get("type") == "TABLE_FUNCTION" and source["function"]["function_name"].lower() in _TEXTS
            places = list(_texts(source)) if is_reader or source.get("type") == "BASE_TABLE" else []
            texts = {text for _, _, text in places}
            for text in sorted(texts) if "encoding" not in texts else ():
                ending, files = ending_of(text), list[str]()
                if (ending and is_reader) or ending in (*TEXT_ENDINGS, *JSON_ENDINGS):
                    files = _matches(db, f"glob({quoted(text)})")
                copies, encoded = stack.enter_context(in_utf_8(files, encoding, folder / str(count)))
                if copies != files:
                    several = f"{escaped(str(folder / str(count)))}/*/*{unpacked(text)[-len(ending) :]}"
                    for holder, key, _ in (place for place in places if place[2] == text):
                        holder[key] = escaped(copies[0]) if len(copies) == 1 else several
                    count, found = count + 1, found or encoded
        yield count > 0, found


def _texts(tree: Any) -> Iterator[tuple[Any, Any, str]]:
    """All texts in a JSON value, and where they are; which part of a parsed query names a file depends on DuckDB's version."""
    for holder in _holders(tree):
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        yield from ((holder, key, text) for key, text in items if isinstance(text, str))


def _check(db: Connection, sql: str, name: str) -> Any:
    """Raise unless it is one SELECT. DuckDB's own parser decides: a SELECT may hold a COPY in a WITH. Returns it parsed."""
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
            raise DataError(f"{name}: a query may only read, also within WITH")
        if kind == "TABLE_FUNCTION" and (function := each["function"]["function_name"].lower()) not in READERS:
            raise DataError(f"{name}: a query cannot select from {function}(), only from {', '.join(sorted(READERS))}")
        for file in _files(db, each, kind):
            check_no_pipe(file)
            if kind == "BASE_TABLE" and (reader := _READER_OF.get(ending_of(file))):
                given = quoted(each["table_name"])
                raise DataError(f"{name}: DuckDB does not know the format of {given} by its name; write {reader}({given})")
    return parsed


def _keeps_order(query: dict[str, Any]) -> bool:
    """Whether rows come in the order of one file, or of an ORDER BY at the end."""
    if any(each["type"] == "ORDER_MODIFIER" for each in query["modifiers"]):
        return True
    return not any(
        str(each.get("type")) in _UNORDERED
        or each.get("class") == "SUBQUERY"
        or each.get("aggregate_handling") == "FORCE_AGGREGATES"
        or any(map(each.get, _UNORDERED_CLAUSES))
        for each in _objects(query)
    )


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
    return [file for sql in listed for file in _matches(db, sql)]


def _matches(db: Connection, sql: str) -> list[str]:
    """Files that are listed in SQL; what names none is an option, or an error that the query itself will tell."""
    with contextlib.suppress(DataError):
        return [file for (file,) in run(db, f"SELECT file FROM {sql} ORDER BY file", "glob")]
    return []


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value, at any depth."""
    return (each for each in _holders(tree) if isinstance(each, dict))


def _holders(tree: Any) -> Iterator[Any]:
    """All objects and lists in a JSON value, at any depth."""
    left = [tree]
    while left:
        if isinstance(each := left.pop(), dict | list):
            yield each
            left.extend(each.values() if isinstance(each, dict) else each)

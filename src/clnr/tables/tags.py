"""Columns of tags: lists, lists that are written as text, and text in which a sign separates short words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clnr.graph.csr import Array
from clnr.tables.source import Column, Table
from clnr.tables.sql import quoted, run, trimmed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Signs that separate tags, and the share of values that must have them: a comma is common in prose, too.
_SEPARATORS = {"|": 0.25, ";": 0.25, "><": 0.25, ",": 0.5}
# Words of a tag, on average.
_WORDS = {",": 2.0}
_MOST_WORDS = 3.0
# So many rows are looked at.
_ROWS = 10_000
_AROUND = " \t\n\r\"'<>[]"


def tags_sql(column: Column, separator: str) -> str:
    """The tags of a column as a list of text; empty ones are left out, and what is around a tag: quotes, brackets, blanks."""
    c, kind = column
    if kind.endswith("]"):
        items, around = f"CAST({c} AS VARCHAR[])", " \t\n\r"
    else:
        items, around = f"string_split({trimmed(c)}, {quoted(separator or ',')})", _AROUND
    return f"[trim(x, {quoted(around)}) FOR x IN {items} IF trim(x, {quoted(around)}) <> '']"


def split_tags(lists: Any) -> tuple[Array, Array, Any]:
    """The tags of an Arrow array of lists without nulls, as ``split_words`` has the words of texts."""
    import pyarrow.compute as pc

    found = lists.flatten().dictionary_encode()
    return pc.list_parent_indices(lists).to_numpy(), found.indices.to_numpy(), found.dictionary


def is_bracketed(db: DuckDBPyConnection, table: Table, column: str) -> bool:
    """Whether all texts of a column are lists in brackets, as JSON and Python write them."""
    text = trimmed(table.columns[column].sql)
    # The first rows mostly tell, which saves a scan of millions.
    for rows in (f"{table.sql} WHERE i < 1000", table.sql):
        ((other,),) = run(db, f"SELECT bool_or(v NOT LIKE '[%]') FROM (SELECT {text} AS v FROM {rows})", table.name)
        if other:
            return False
    return True


def find_separator(db: DuckDBPyConnection, table: Table, column: str) -> str | None:
    """The sign that separates the tags of a column of text; None if it holds none.

    It is in many values, and what it separates is short and recurs: each tag twice on average. Commas within numbers do not
    count. Only the first rows are looked at.
    """
    text = trimmed(table.columns[column].sql)
    has = {sign: f"contains(v, {quoted(sign)})" for sign in _SEPARATORS}
    has[","] = "regexp_matches(v, '[^0-9], ?[^0-9 ]')"
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in has.values())
    ((present, *found),) = run(
        db, f"SELECT count(v), {counts} FROM (SELECT {text} AS v FROM {table.sql} WHERE i < {_ROWS})", table.name
    )
    for (sign, share), count in zip(_SEPARATORS.items(), found, strict=True):
        if count and count >= share * present and _recur(db, table, column, sign):
            return sign
    return None


def _recur(db: DuckDBPyConnection, table: Table, column: str, separator: str) -> bool:
    tags = f"SELECT unnest({tags_sql(table.columns[column], separator)}) AS tag FROM {table.sql} WHERE i < {_ROWS}"
    words = "avg(1 + len(tag) - len(replace(tag, ' ', '')))"
    ((total, distinct, length),) = run(db, f"SELECT count(*), count(DISTINCT tag), {words} FROM ({tags})", table.name)
    return bool(total) and 2 * distinct <= total and length <= _WORDS.get(separator, _MOST_WORDS)

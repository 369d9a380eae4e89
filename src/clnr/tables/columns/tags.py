"""Columns of tags: lists, lists that are written as text, and text in which a sign separates short words."""

from __future__ import annotations

from typing import Any

from clnr.graph.csr import Array
from clnr.tables.columns.column_asks import Ask, Asks
from clnr.tables.io.source import Column, Table
from clnr.tables.io.sql import quoted, trimmed

# Signs that separate tags, and the share of values that must have them: a comma is common in prose, too.
_SEPARATORS = {"|": 0.25, ";": 0.25, "><": 0.25, ",": 0.5}
# Words of a tag, on average.
_MOST_WORDS_BY_SEPARATOR = {",": 2.0}
_MOST_WORDS = 3.0
# So many rows are looked at.
_SAMPLE_ROWS = 10_000
_SIGNS_AROUND = " \t\n\r\"'<>[]"


def tags_sql(column: Column, separator: str) -> str:
    """The tags of a column as a list of text; empty ones are left out, and what is around a tag: quotes, brackets, blanks."""
    c, kind = column
    if kind.endswith("]"):
        items, around = f"CAST({c} AS VARCHAR[])", " \t\n\r"
    else:
        items, around = f"string_split({trimmed(c)}, {quoted(separator or ',')})", _SIGNS_AROUND
    return f"[trim(x, {quoted(around)}) FOR x IN {items} IF trim(x, {quoted(around)}) <> '']"


def split_tags(lists: Any) -> tuple[Array, Array, Any]:
    """The tags of an Arrow array of lists without nulls, as ``split_words`` has the words of texts."""
    import pyarrow.compute as pc

    encoded = lists.flatten().dictionary_encode()
    return pc.list_parent_indices(lists).to_numpy(), encoded.indices.to_numpy(), encoded.dictionary


def ask_bracketed(table: Table, column: str) -> Asks[bool]:
    """Whether all texts of a column are lists in brackets, as JSON and Python write them."""
    # The first rows mostly tell, which saves a scan of millions.
    for rows in (f"{table.sql} WHERE i < 1000", table.sql):
        (other,) = yield Ask(table.columns[column], rows, ("bool_or(v NOT LIKE '[%]')",), trimmed("c"))
        if other:
            return False
    return True


def ask_separator(table: Table, column: str) -> Asks[str | None]:
    """The sign that separates the tags of a column of text; None if it holds none.

    It is in many values, and what it separates is short and recurs: each tag twice on average. Commas within numbers do not
    count. Only the first rows are looked at.
    """
    has = {sign: f"contains(v, {quoted(sign)})" for sign in _SEPARATORS}
    has[","] = "regexp_matches(v, '[^0-9], ?[^0-9 ]')"
    counts = (f"count(*) FILTER ({condition})" for condition in has.values())
    rows = f"{table.sql} WHERE i < {_SAMPLE_ROWS}"
    present, *separated = yield Ask(table.columns[column], rows, ("count(v)", *counts), trimmed("c"))
    for (sign, share), count in zip(_SEPARATORS.items(), separated, strict=True):
        if count and count >= share * present and (yield from _ask_recurring(table, column, sign)):
            return sign
    return None


def _ask_recurring(table: Table, column: str, separator: str) -> Asks[bool]:
    tags = f"(SELECT unnest({tags_sql(table.columns[column], separator)}) AS tag FROM {table.sql} WHERE i < {_SAMPLE_ROWS})"
    words = "avg(1 + len(v) - len(replace(v, ' ', '')))"
    total, distinct, length = yield Ask(Column("tag", "VARCHAR"), tags, ("count(*)", "count(DISTINCT v)", words))
    return bool(total) and 2 * distinct <= total and length <= _MOST_WORDS_BY_SEPARATOR.get(separator, _MOST_WORDS)

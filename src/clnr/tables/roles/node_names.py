"""Names of nodes: the column of the node table that holds them, chosen or guessed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

_NAME_ENDINGS = ("name", "title")
_LONGEST_NAME_LETTERS = 120


def can_name(kind: Any) -> bool:
    """Whether values of an Arrow type can be written as text."""
    import pyarrow as pa

    is_one = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return not any(test(kind) for test in is_one)


def guess_name(columns: Any, taken: Collection[str | None]) -> str | None:
    """The first column of an Arrow table whose own name ends in 'name' or 'title' and whose values look like names.

    Those are text, mostly not numbers, with at most 120 characters on average; at least half of the nodes have one, and more
    than half of them are distinct. A column called exactly 'name' or 'title' comes first.
    """
    ends = [column for column in columns.column_names if column not in taken and may_name(column)]
    ends.sort(key=lambda column: column.strip().casefold() not in _NAME_ENDINGS)
    return next((column for column in ends if _look_like_names(columns[column])), None)


def _look_like_names(values: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return False
    texts = name_texts(values)
    there = len(texts) - texts.null_count
    if not there or 2 * there < len(texts) or 2 * pc.count_distinct(texts).as_py() <= there:
        return False
    numbers = pc.sum(pc.match_substring_regex(texts, r"^[-+.,\d]+$")).as_py()
    return 2 * numbers <= there and pc.mean(pc.utf8_length(texts)).as_py() <= _LONGEST_NAME_LETTERS


def may_name(column: str) -> bool:
    """Whether a column is called as one of names is."""
    return column.strip().casefold().endswith(_NAME_ENDINGS)


def name_texts(values: Any) -> Any:
    """Values of an Arrow column as names: trimmed text; empty text is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(values.cast(pa.string()))
    return pc.if_else(pc.equal(texts, ""), None, texts)

"""How one column becomes features; ``COLUMN_TYPES`` has a row for each type of columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, UnknownName, one_line
from clnr.graph.csr import Array
from clnr.support.humanize import plural
from clnr.tables.columns.text_words import Split, split_tags, split_words, text_buckets
from clnr.tables.io.sql import NUMBERS, Column, as_text, plain_id, quoted

# The most values of a category, and letters of these, that are named where it is described.
_NAMED_VALUES, _NAMED_LETTERS = 6, 60
TRUE = ("true", "yes", "t", "y")
FALSE = ("false", "no", "f", "n")


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column becomes features, as inferred from its values.

    Attributes:
        kind: ``number``, ``time``, ``boolean``, ``category`` (one-hot), ``text`` (bag of words), ``tags`` (bag of tags) or
            ``vector``.
        missing: Whether one more feature marks missing values; only if some were missing when it was inferred.
        centre: Subtracted from a number.
        scale: A number is then divided by it.
        values: The values, words or tags that have a feature each, in the order of their features.
        weights: Of each feature of text or tags; empty if all are alike.
        buckets: Number of features, after these, into which other values or words are hashed; if 0, they have no feature.
        distinct: Number of distinct values, words or tags when it was inferred; 0 if that is not known.
        separator: What separates tags that are written as text.
        node_kind: The kind of nodes that have the column; "" if all may have it. Its features are 0 for other nodes.
    """

    column: str
    kind: str
    width: int
    missing: bool = False
    centre: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = field(default=(), repr=False)
    weights: tuple[float, ...] = field(default=(), repr=False)
    buckets: int = 0
    distinct: int = 0
    separator: str = ""
    node_kind: str = ""

    def __post_init__(self) -> None:
        if self.kind not in COLUMN_TYPES:
            raise UnknownName("type of column", self.kind, COLUMN_TYPES)
        lists, counts = (self.values, self.weights), (self.width, self.buckets, self.distinct)
        right = (
            all(isinstance(each, tuple) for each in lists)
            and all(isinstance(each, str) for each in (self.column, self.separator, self.node_kind, *self.values))
            and all(type(each) is int and each >= 0 for each in counts)
            and 0 < self.width <= 1 << 20
            and isinstance(self.missing, bool)
            and _are_finite(self.centre, self.scale)
            and self.scale != 0
            and (not self.sparse or len(self.values) + self.buckets == self.width)
            and len(self.weights) in (0, self.width)
            and _are_finite(*self.weights)
            and all(1 <= weight <= 100 for weight in self.weights)
            and len(self.separator) <= 1
            and _is_unicode((self.separator, self.node_kind, *self.values))
            and len(set(self.values)) == len(self.values)
        )
        if not right:
            raise DataError(f"not a valid saved encoder: what it says of column {self.column!r} is out of range")

    @property
    def column_type(self) -> ColumnType:
        return COLUMN_TYPES[self.kind]

    @property
    def sparse(self) -> bool:
        return bool(self.column_type.token)

    @property
    def features(self) -> int:
        """How many there are, with the one that marks missing values."""
        return self.width + self.missing

    @property
    def summary(self) -> str:
        """How values become features: which words or values have one, or how numbers are scaled."""
        token = self.column_type.token
        if not token:
            return self.column_type.scaling
        weighted = ", weighted by rarity" if self.weights else ""
        hashed = f"hashed into {plural(self.buckets, 'feature')}"
        if not self.values:
            return f"{plural(self.distinct, token) if self.distinct else token + 's'} {hashed}{weighted}"
        if not self.buckets:
            shown = ", ".join(self.values)
            few = self.kind == "category" and len(self.values) <= _NAMED_VALUES and len(shown) <= _NAMED_LETTERS
            return f"{plural(len(self.values), token)}{f' ({one_line(shown)})' if few else ''}{weighted}"
        return f"{len(self.values):,} most frequent of {plural(self.distinct, token)}{weighted}, the others {hashed}"

    def missing_sql(self, column: Column) -> str:
        """Whether a value of a column is missing."""
        return self.column_type.missing.format(value=self.sql(column), width=self.width)

    def sql(self, column: Column | None) -> str:
        """What to select of a column; None is one that the table lacks."""
        return f"CAST(NULL AS {self.column_type.sql_type})" if column is None else self.column_type.select(self, column)

    def encode(self, values: Any, kinds: Array | None = None) -> list[Array | sp.csr_array]:
        """The features of an Arrow array that ``sql`` selects; a second block marks missing values, given kinds of nodes."""
        block, known = self.column_type.encode(self, values)
        absent = ~known if not self.node_kind or kinds is None else ~known & (kinds == self.node_kind)
        return [block, absent.astype(np.float32)[:, None]] if self.missing else [block]


def _are_finite(*numbers: Any) -> bool:
    return all(isinstance(number, int | float) and abs(number) <= sys.float_info.max for number in numbers)


def _is_unicode(texts: tuple[str, ...]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


# -- how values are read ----------------------------------------------------------------------------------------------------


def number_sql(column: Column) -> str:
    """A finite number, or NULL."""
    typed = column.is_of((*NUMBERS, "BOOLEAN"))
    value = f"CAST({column.sql} AS DOUBLE)" if typed else f"TRY_CAST({as_text(column.sql)} AS DOUBLE)"
    return f"CASE WHEN isfinite({value}) THEN {value} END"


def time_sql(column: Column) -> str:
    """A time in seconds since 1970, or NULL: of its text, as in ISO 8601, which of some types alone can be read."""
    text, pattern = as_text(column.sql), quoted("^[0-9]{4}(-[0-9]{2}-[0-9]{2}|/[0-9]{1,2}/[0-9]{1,2})")
    return f"CASE WHEN regexp_matches({text}, {pattern}) THEN epoch(TRY_CAST({text} AS TIMESTAMP)) END"


def boolean_sql(column: Column) -> str:
    """1, 0 or NULL."""
    text = f"lower({as_text(column.sql)})"
    yes, no = (", ".join(map(quoted, words)) for words in (TRUE, FALSE))
    return f"CASE WHEN {text} IN ({yes}) THEN 1.0::DOUBLE WHEN {text} IN ({no}) THEN 0.0::DOUBLE END"


def tags_sql(column: Column, separator: str) -> str:
    """A list of distinct tags, or NULL if there are none; of text, what stands between separators."""
    c, kind = column
    parts = f"CAST({c} AS VARCHAR[])" if kind.endswith("]") else f"string_split({as_text(c)}, {quoted(separator)})"
    tags = f"list_distinct([trim(x) FOR x IN {parts} IF x IS NOT NULL AND trim(x) <> ''])"
    return f"CASE WHEN len({tags}) > 0 THEN list_sort({tags}) END"


def vector_sql(column: Column) -> str:
    """A list of numbers, or NULL; NULL within it is no number."""
    c, kind = column
    return (
        f"CAST({c} AS DOUBLE[])"
        if kind.startswith(NUMBERS) and kind.count("[") == 1
        else f"TRY_CAST(CAST({c} AS VARCHAR) AS DOUBLE[])"
    )


# -- how they become features: the features of an Arrow array, and which of its values are known ------------------------------


def _encode_number(encoder: ColumnEncoder, values: Any) -> tuple[Array, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = ((_floats(values) - encoder.centre) / encoder.scale).astype(np.float32)
    known = np.isfinite(scaled)
    return np.where(known, scaled, np.float32(0))[:, None], known


def _encode_category(encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    known = np.asarray(values.is_valid())
    feature = _feature_of(encoder, values.drop_null())
    return _one_hot(np.flatnonzero(known)[feature >= 0], feature[feature >= 0], len(values), encoder.width), known


def _encode_bag(split: Split, encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    """A bag of words or tags, each row of length 1, so that long text weighs as much as short."""
    known = np.asarray(values.is_valid())
    text, word, words = split(values.drop_null())
    feature = _feature_of(encoder, words)[word]
    some = feature >= 0
    rows = _one_hot(np.flatnonzero(known)[text[some]], feature[some], len(values), encoder.width)
    rows.sum_duplicates()
    weights = np.array(encoder.weights or np.ones(encoder.width))[rows.indices]
    row = np.repeat(np.arange(len(values)), np.diff(rows.indptr))
    rows.data = (weights / np.sqrt(np.bincount(row, weights**2, len(values)))[row]).astype(np.float32)
    return rows, known


def _encode_vector(encoder: ColumnEncoder, values: Any) -> tuple[Array, Array]:
    import pyarrow as pa
    import pyarrow.compute as pc

    known = np.asarray(pc.equal(pc.list_value_length(values), encoder.width).fill_null(False))
    flat = _floats((values if known.all() else values.filter(pa.array(known))).flatten())
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (flat / encoder.scale).astype(np.float32)
        # Numbers beyond float32 are missing here, as they were when the scale was inferred.
        finite = np.isfinite(flat.astype(np.float32)) & np.isfinite(scaled)
    out = np.zeros((len(values), encoder.width), np.float32)
    out[known] = np.where(finite, scaled, np.float32(0)).reshape(-1, encoder.width)
    return out, known


def _floats(values: Any) -> Array:
    return values.to_numpy(zero_copy_only=False)


def _feature_of(encoder: ColumnEncoder, texts: Any) -> Array:
    """The index of the feature of each text of an Arrow array without nulls; -1 if it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    index = pc.index_in(texts, value_set=pa.array(encoder.values, texts.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    if encoder.buckets:
        hashed = len(encoder.values) + text_buckets(texts, encoder.buckets)
        return np.where(index < 0, hashed, index)
    return index


def _one_hot(row: Array, column: Array, count: int, width: int) -> sp.csr_array:
    """Ones at some rows and columns; rows are sorted."""
    indptr = np.searchsorted(row, np.arange(count + 1))
    return sp.csr_array((np.ones(len(row), np.float32), column, indptr), shape=(count, width))


# -- types ------------------------------------------------------------------------------------------------------------------


class ColumnType(NamedTuple):
    """A type of columns; ``infer`` says which columns are of it.

    Attributes:
        word: What users and reports call it.
        sql_type: The type in DuckDB of what is selected.
        select: The SQL that reads a column.
        encode: What is selected as features, and which values are known.
        missing: Whether a ``value`` that is selected is missing, in SQL.
        token: What has a feature each, if features are sparse.
        scaling: How values are scaled, if features are dense.
    """

    word: str
    sql_type: str
    select: Callable[[ColumnEncoder, Column], str]
    encode: Callable[[ColumnEncoder, Any], tuple[Any, Array]]
    missing: str = "({value}) IS NULL"
    token: str = ""
    scaling: str = ""


_SCALED = "scaled to mean 0 and variance 1"
COLUMN_TYPES = {
    "number": ColumnType("number", "DOUBLE", lambda _, column: number_sql(column), _encode_number, scaling=_SCALED),
    "time": ColumnType("time", "DOUBLE", lambda _, column: time_sql(column), _encode_number, scaling=_SCALED),
    "boolean": ColumnType("boolean", "DOUBLE", lambda _, column: boolean_sql(column), _encode_number, scaling="0 or 1"),
    "category": ColumnType("category", "VARCHAR", lambda _, column: plain_id(column.sql), _encode_category, token="value"),
    "text": ColumnType(
        "text", "VARCHAR", lambda _, column: as_text(column.sql), partial(_encode_bag, split_words), token="word"
    ),
    "tags": ColumnType(
        *("list", "VARCHAR[]", lambda encoder, column: tags_sql(column, encoder.separator), partial(_encode_bag, split_tags)),
        token="tag",
    ),
    "vector": ColumnType(
        *("list", "DOUBLE[]", lambda _, column: vector_sql(column), _encode_vector),
        missing="coalesce(len({value}), -1) <> {width}",
        scaling="divided by one number",
    ),
}
"""The types of columns by the names that saved encoders have for them."""

"""How one column becomes features; ``COLUMN_TYPES`` has a row for each type of columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, UnknownName, one_line
from clnr.graph.csr import Array
from clnr.support.humanize import plural
from clnr.tables.columns.notations import NOTATIONS, tags_sql
from clnr.tables.columns.text_words import Split, split_tags, split_words, text_buckets
from clnr.tables.columns.units import LONGEST_UNIT, Unit
from clnr.tables.io.source import Column
from clnr.tables.io.sql import DATETIMES, NUMBERS, connect, quoted, run, trimmed

# The most values of a category, and letters of these, that are named where it is described.
_NAMED_VALUES, _NAMED_LETTERS = 6, 60
TRUE = ("true", "yes", "t", "y")
FALSE = ("false", "no", "f", "n")


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column becomes features, as inferred from its values.

    Attributes:
        kind: ``number``, ``datetime``, ``bool``, ``category`` (one-hot), ``text`` (bag of words), ``tags`` (bag of tags) or
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
        notation: How numbers or dates are written as text, one of ``NOTATIONS``; "" for 1234.5 and 2020-12-31.
        unit: What numbers are written with as text, such as $ or km; "" for nothing. Other units are missing values.
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
    notation: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if self.kind not in COLUMN_TYPES:
            raise UnknownName("kind of column", self.kind, COLUMN_TYPES)
        lists, counts = (self.values, self.weights), (self.width, self.buckets, self.distinct)
        right = (
            all(isinstance(each, tuple) for each in lists)
            and all(isinstance(each, str) for each in (self.column, self.separator, self.node_kind, self.unit, *self.values))
            and all(type(each) is int and each >= 0 for each in counts)
            and 0 < self.width <= 1 << 20
            and isinstance(self.missing, bool)
            and _finite(self.centre, self.scale)
            and self.scale != 0
            and (not self.sparse or len(self.values) + self.buckets == self.width)
            and len(self.weights) in (0, self.width)
            and _finite(*self.weights)
            and all(1 <= weight <= 100 for weight in self.weights)
            and len(self.separator) <= 8
            and _is_unicode((self.separator, self.node_kind, self.unit))
            and (self.unit == "" or (self.kind == "number" and len(self.unit) <= LONGEST_UNIT))
            and (self.notation == "" or NOTATIONS.get(self.notation) == self.kind)
        )
        if not right:
            raise DataError(f"not a valid saved feature encoder: the numbers of column {self.column!r} are out of range")
        if len(set(self.values)) < len(self.values) or not _is_unicode(self.values):
            raise DataError(
                f"not a valid saved feature encoder: column {self.column!r} has a value twice, or one that is not text"
            )

    @property
    def column_type(self) -> ColumnType:
        return COLUMN_TYPES[self.kind]

    @property
    def sparse(self) -> bool:
        return bool(self.column_type.token)

    @property
    def summary(self) -> str:
        """How values become features: which words or values have one, or how numbers are scaled."""
        if not self.sparse:
            return ", ".join(filter(None, (Unit(self.unit, self.notation).words, self.column_type.scaling)))
        has_codes = self.kind == "category" and any(each.startswith("0") for each in self.values)
        token = "code" if has_codes and "".join(self.values).isdigit() else self.column_type.token
        weighted = ", weighted by rarity" if self.weights else ""
        hashed = f"hashed into {plural(self.buckets, 'feature')}"
        if not self.values:
            return f"{plural(self.distinct, token) if self.distinct else token + 's'} {hashed}{weighted}"
        if not self.buckets:
            shown = ", ".join(self.values)
            few = self.kind == "category" and len(self.values) <= _NAMED_VALUES and len(shown) <= _NAMED_LETTERS
            return f"{plural(len(self.values), token)}{f' ({one_line(shown)})' if few else ''}{weighted}"
        return f"{len(self.values):,} most frequent of {plural(self.distinct, token)}{weighted}, the others {hashed}"

    def missing_sql(self, column: Column | None) -> str:
        """Whether a value of a column is missing; None is a column that the table lacks."""
        if self.column_type.missing:
            return self.column_type.missing.format(value=self.sql(column), width=self.width)
        return f"({self.sql(column)}) IS NULL" if column is None else empty_sql(column)

    def sql(self, column: Column | None) -> str:
        """What to select of a column; None is one that the table lacks."""
        if column is None:
            return f"CAST(NULL AS {self.column_type.sql_type})"
        if (self.notation or self.unit) and column.kind in ("VARCHAR", "TIME", "INTERVAL"):
            column = column._replace(sql=Unit(self.unit, self.notation).plain(trimmed(column.sql)))
        return self.column_type.select(self, column)

    def numbers_in(self, texts: Any) -> Any:
        """Texts of an Arrow array as numbers; null where they are none."""
        import pyarrow as pa

        with closing(connect()) as db:
            listed = f"SELECT {self.sql(Column('c', 'VARCHAR'))} FROM (SELECT unnest(CAST(? AS VARCHAR[])) AS c)"
            return pa.array([number for (number,) in run(db, listed, self.column, [texts.to_pylist()])], pa.float64())

    def encode(self, values: Any, kinds: Array | None = None) -> list[Array | sp.csr_array]:
        """The features of an Arrow array that ``sql`` selects; a second block marks missing values, given kinds of nodes."""
        block, known = self.column_type.encode(self, values)
        absent = ~known if not self.node_kind or kinds is None else ~known & (kinds == self.node_kind)
        return [block, absent.astype(np.float32)[:, None]] if self.missing else [block]


def empty_sql(column: Column) -> str:
    """Whether a value of a column is empty: NULL, or text without a letter in it."""
    c, kind = column
    return f"{trimmed(c)} IS NULL" if kind == "VARCHAR" else f"{c} IS NULL"


def _finite(*numbers: Any) -> bool:
    return all(isinstance(number, int | float) and abs(number) <= sys.float_info.max for number in numbers)


def _is_unicode(texts: tuple[str, ...]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


# -- how values are read ----------------------------------------------------------------------------------------------------


def _cast(column: Column, wanted: str, direct: tuple[str, ...]) -> str:
    """Values of another type are read from their text, and are missing where that fails."""
    c, kind = column
    return f"TRY_CAST({c} AS {wanted})" if kind.startswith(direct) else f"TRY_CAST(CAST({c} AS VARCHAR) AS {wanted})"


def _bool_sql(column: Column) -> str:
    text = trimmed(column.sql)
    yes, no = (", ".join(map(quoted, words)) for words in (TRUE, FALSE))
    return f"CASE WHEN lower({text}) IN ({yes}) THEN 1.0::DOUBLE WHEN lower({text}) IN ({no}) THEN 0.0::DOUBLE END"


def _vector_sql(column: Column) -> str:
    return _cast(column if column.kind.endswith("]") else column._replace(kind=""), "DOUBLE[]", NUMBERS)


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
    if not finite.all():
        scaled[~finite] = 0
    rows = scaled.reshape(-1, encoder.width)
    if known.all():
        return rows, known
    out = np.zeros((len(values), encoder.width), np.float32)
    out[known] = rows
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
        missing: Whether a ``value`` that is selected is missing, in SQL; if not said, where the column is empty.
        token: What has a feature each, if features are sparse.
        scaling: How values are scaled, if features are dense.
        written: How values are written, for a user who says that a column is of the type.
    """

    word: str
    sql_type: str
    select: Callable[[ColumnEncoder, Column], str]
    encode: Callable[[ColumnEncoder, Any], tuple[Any, Array]]
    missing: str = ""
    token: str = ""
    scaling: str = ""
    written: str = ""


_NOT_FINITE = "NOT coalesce(isfinite({value}), false)"
_SCALED = "scaled to mean 0 and variance 1"
COLUMN_TYPES = {
    "number": ColumnType(
        *("number", "DOUBLE", lambda _, column: _cast(column, "DOUBLE", (*NUMBERS, "BOOLEAN")), _encode_number, _NOT_FINITE),
        scaling=_SCALED,
        written="numbers are written as 1234.5, or 1234,5",
    ),
    "datetime": ColumnType(
        *("date", "DOUBLE", lambda _, column: f"epoch({_cast(column, 'TIMESTAMP', DATETIMES)})", _encode_number, _NOT_FINITE),
        scaling=_SCALED,
        written="dates are written as 2020-12-31, or 31.12.2020",
    ),
    "bool": ColumnType(
        *("bool", "DOUBLE", lambda _, column: _bool_sql(column), _encode_number, "({value}) IS NULL"),
        scaling="0 or 1",
        written="they are written as true and false, or yes and no",
    ),
    "category": ColumnType("category", "VARCHAR", lambda _, column: trimmed(column.sql), _encode_category, token="value"),
    "text": ColumnType(
        "text", "VARCHAR", lambda _, column: trimmed(column.sql), partial(_encode_bag, split_words), token="word"
    ),
    "tags": ColumnType(
        *("tags", "VARCHAR[]", lambda encoder, column: tags_sql(column, encoder.separator), partial(_encode_bag, split_tags)),
        token="tag",
    ),
    "vector": ColumnType(
        *("vector", "DOUBLE[]", lambda _, column: _vector_sql(column), _encode_vector),
        missing="coalesce(len({value}), -1) <> {width}",
        scaling="divided by one number",
    ),
}
"""The types of columns by the names that saved encoders have for them."""

"""How one column becomes features."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, UnknownName, one_line
from clnr.graph.csr import Array
from clnr.support.humanize import plural
from clnr.tables.columns.notations import NOTATIONS, notation_words, usual_sql
from clnr.tables.columns.tags import split_tags, tags_sql
from clnr.tables.columns.text_hashing import Split, split_words, text_buckets
from clnr.tables.io.source import Column
from clnr.tables.io.sql import DATETIMES, NUMBERS, quoted, trimmed

# So many values of a category are named where it is described, if they have so many letters at most.
_NAMED_VALUES, _NAMED_LETTERS = 6, 60
TRUE = ("true", "yes", "t", "y")
FALSE = ("false", "no", "f", "n")


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column becomes features, as inferred from its values.

    Attributes:
        column: Its name.
        kind: ``number``, ``datetime``, ``bool``, ``category`` (one-hot), ``text`` (bag of words), ``tags`` (bag of tags) or
            ``vector``.
        width: Number of features.
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

    def __post_init__(self) -> None:
        if self.kind not in _ENCODE:
            raise UnknownName("kind of column", self.kind, _ENCODE)
        right = (
            isinstance(self.column, str)
            and type(self.width) is int
            and 0 < self.width <= 1 << 20
            and isinstance(self.missing, bool)
            and finite(self.centre, self.scale)
            and self.scale != 0
            and isinstance(self.values, tuple)
            and all(isinstance(value, str) for value in self.values)
            and type(self.buckets) is int
            and self.buckets >= 0
            and type(self.distinct) is int
            and self.distinct >= 0
            and (not self.sparse or len(self.values) + self.buckets == self.width)
            and isinstance(self.weights, tuple)
            and len(self.weights) in (0, self.width)
            and finite(*self.weights)
            and all(1 <= weight <= 100 for weight in self.weights)
            and isinstance(self.separator, str)
            and len(self.separator) <= 8
            and isinstance(self.node_kind, str)
            and _is_unicode((self.separator, self.node_kind))
            and (self.notation == "" or NOTATIONS.get(self.notation) == self.kind)
        )
        if not right:
            raise DataError(f"not a valid saved feature encoder: the numbers of column {self.column!r} are out of range")
        if len(set(self.values)) < len(self.values) or not _is_unicode(self.values):
            raise DataError(
                f"not a valid saved feature encoder: column {self.column!r} has a value twice, or one that is no text"
            )

    @property
    def sparse(self) -> bool:
        return self.kind in _TOKENS

    @property
    def summary(self) -> str:
        """How values become features: which words or values have one, or how numbers are scaled."""
        if not self.sparse:
            return f"{notation_words(self.notation)}, {_SUMMARIES[self.kind]}" if self.notation else _SUMMARIES[self.kind]
        what = _TOKENS[self.kind]
        weighted = ", weighted by rarity" if self.weights else ""
        hashed = f"hashed into {plural(self.buckets, 'feature')}"
        if not self.values:
            return f"{plural(self.distinct, what) if self.distinct else what + 's'} {hashed}{weighted}"
        if not self.buckets:
            return f"{plural(len(self.values), what)}{self._few_values()}{weighted}"
        return f"{len(self.values):,} most frequent of {plural(self.distinct, what)}{weighted}, the others {hashed}"

    def _few_values(self) -> str:
        """The values of a category in brackets, if they are few and short."""
        shown = ", ".join(self.values)
        few = len(self.values) <= _NAMED_VALUES and len(shown) <= _NAMED_LETTERS
        return f" ({one_line(shown)})" if self.kind == "category" and few else ""

    def missing_sql(self, column: Column | None) -> str:
        """Whether a value of a column is missing; None is a column that the table lacks."""
        value = self.sql(column)
        if self.kind in ("number", "datetime"):
            return f"NOT coalesce(isfinite({value}), false)"
        if self.kind == "vector":
            return f"coalesce(len({value}), -1) <> {self.width}"
        return empty_sql(column) if column is not None and self.kind != "bool" else f"({value}) IS NULL"

    def sql(self, column: Column | None) -> str:
        """What to select of a column; None is one that the table lacks."""
        if column is None:
            return f"CAST(NULL AS {_SQL_TYPES.get(self.kind, 'VARCHAR')})"
        c, kind = column
        if self.notation and kind == "VARCHAR":
            c = usual_sql(trimmed(c), self.notation)
        if self.kind == "number":
            return _cast(c, kind, "DOUBLE", (*NUMBERS, "BOOLEAN"))
        if self.kind == "datetime":
            return f"epoch({_cast(c, kind, 'TIMESTAMP', DATETIMES)})"
        if self.kind == "vector":
            return _cast(c, kind if kind.endswith("]") else "", "DOUBLE[]", NUMBERS)
        if self.kind == "tags":
            return tags_sql(column, self.separator)
        text = trimmed(c)
        if self.kind == "bool":
            yes, no = (", ".join(map(quoted, words)) for words in (TRUE, FALSE))
            return f"CASE WHEN lower({text}) IN ({yes}) THEN 1.0::DOUBLE WHEN lower({text}) IN ({no}) THEN 0.0::DOUBLE END"
        return text

    def encode(self, values: Any, kinds: Array | None = None) -> list[Array | sp.csr_array]:
        """The features of an Arrow array that ``sql`` selects; a second block marks missing values, given kinds of nodes."""
        block, known = _ENCODE[self.kind](self, values)
        absent = ~known if not self.node_kind or kinds is None else ~known & (kinds == self.node_kind)
        return [block, absent.astype(np.float32)[:, None]] if self.missing else [block]


def empty_sql(column: Column) -> str:
    """Whether a value of a column is empty: NULL, or text without a letter in it."""
    c, kind = column
    return f"{trimmed(c)} IS NULL" if kind == "VARCHAR" else f"{c} IS NULL"


def finite(*numbers: Any) -> bool:
    return all(isinstance(number, int | float) and abs(number) <= sys.float_info.max for number in numbers)


def _is_unicode(texts: tuple[str, ...]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


_SQL_TYPES = {"number": "DOUBLE", "datetime": "DOUBLE", "bool": "DOUBLE", "vector": "DOUBLE[]", "tags": "VARCHAR[]"}
# What has a feature, by the kinds of columns whose features are sparse.
_TOKENS = {"category": "value", "text": "word", "tags": "tag"}
_SCALED = "scaled to mean 0 and variance 1"
_SUMMARIES = {"number": _SCALED, "datetime": _SCALED, "bool": "0 or 1", "vector": "divided by one number"}


def _cast(c: str, kind: str, wanted: str, direct: tuple[str, ...]) -> str:
    """Values of another type are read from their text, and are missing where that fails."""
    return f"TRY_CAST({c} AS {wanted})" if kind.startswith(direct) else f"TRY_CAST(CAST({c} AS VARCHAR) AS {wanted})"


def _number(encoder: ColumnEncoder, values: Any) -> tuple[Array, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = ((_floats(values) - encoder.centre) / encoder.scale).astype(np.float32)
    known = np.isfinite(scaled)
    return np.where(known, scaled, np.float32(0))[:, None], known


def _bool(encoder: ColumnEncoder, values: Any) -> tuple[Array, Array]:
    truths = _floats(values)
    known = ~np.isnan(truths)
    return np.where(known, truths, 0).astype(np.float32)[:, None], known


def _category(encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    known = _known(values)
    feature = _feature_of(encoder, values.drop_null())
    return _one_hot(np.flatnonzero(known)[feature >= 0], feature[feature >= 0], len(values), encoder.width), known


def _text(encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    return _bag(encoder, values, split_words)


def _tags(encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    return _bag(encoder, values, split_tags)


def _bag(encoder: ColumnEncoder, values: Any, split: Split) -> tuple[sp.csr_array, Array]:
    """A bag of words or tags, each row of length 1, so that long text weighs as much as short."""
    known = _known(values)
    text, word, words = split(values.drop_null())
    feature = _feature_of(encoder, words)[word]
    some = feature >= 0
    rows = _one_hot(np.flatnonzero(known)[text[some]], feature[some], len(values), encoder.width)
    rows.sum_duplicates()
    weights = np.array(encoder.weights or np.ones(encoder.width))[rows.indices]
    row = np.repeat(np.arange(len(values)), np.diff(rows.indptr))
    rows.data = (weights / np.sqrt(np.bincount(row, weights**2, len(values)))[row]).astype(np.float32)
    return rows, known


def _feature_of(encoder: ColumnEncoder, texts: Any) -> Array:
    """The index of the feature of each text of an Arrow array without nulls; -1 if it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    index = pc.index_in(texts, value_set=pa.array(encoder.values, texts.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    if encoder.buckets:
        hashed = len(encoder.values) + text_buckets(texts, encoder.buckets)
        return np.where(index < 0, hashed, index)
    return index


def _vector(encoder: ColumnEncoder, values: Any) -> tuple[Array, Array]:
    import pyarrow as pa
    import pyarrow.compute as pc

    known = np.asarray(pc.equal(pc.list_value_length(values), encoder.width).fill_null(False))
    flat = _floats(values.filter(pa.array(known)).flatten())
    with np.errstate(over="ignore", invalid="ignore"):
        # Numbers beyond float32 are missing here, as they were when the scale was inferred.
        scaled = np.where(np.isfinite(flat.astype(np.float32)), flat / encoder.scale, 0).astype(np.float32)
    out = np.zeros((len(values), encoder.width), np.float32)
    out[known] = np.where(np.isfinite(scaled), scaled, np.float32(0)).reshape(-1, encoder.width)
    return out, known


def _floats(values: Any) -> Array:
    return values.to_numpy(zero_copy_only=False)


def _known(values: Any) -> Array:
    return np.asarray(values.is_valid())


def _one_hot(row: Array, column: Array, count: int, width: int) -> sp.csr_array:
    """Ones at some rows and columns; rows are sorted."""
    indptr = np.searchsorted(row, np.arange(count + 1))
    return sp.csr_array((np.ones(len(row), np.float32), column, indptr), shape=(count, width))


_ENCODE: dict[str, Callable[[ColumnEncoder, Any], tuple[Any, Array]]] = {
    "number": _number,
    "datetime": _number,
    "bool": _bool,
    "category": _category,
    "text": _text,
    "tags": _tags,
    "vector": _vector,
}

"""How one column becomes features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, UnknownName
from clnr.graph.csr import Array
from clnr.tables.source import Column
from clnr.tables.sql import DATETIMES, NUMBERS, quoted, trimmed
from clnr.tables.text_hashing import text_buckets, word_buckets

TRUE = ("true", "yes", "t", "y")
FALSE = ("false", "no", "f", "n")


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column becomes features, as inferred from its values.

    Attributes:
        column: Its name.
        kind: ``number``, ``datetime``, ``bool``, ``category`` (one-hot), ``hashed`` (one-hot of a hash), ``text``
            (hashed bag of words) or ``vector``.
        width: Number of features.
        missing: Whether one more feature marks missing values; only if some were missing when it was inferred.
        centre: Subtracted from a number.
        scale: A number is then divided by it.
        values: The values of a category, in the order of their features.
    """

    column: str
    kind: str
    width: int
    missing: bool = False
    centre: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

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
            and all(isinstance(value, str) for value in self.values)
            and (self.kind != "category" or len(self.values) == self.width)
        )
        if not right:
            raise DataError(f"not a valid saved feature encoder: the numbers of column {self.column!r} are out of range")

    @property
    def sparse(self) -> bool:
        return self.kind in ("category", "hashed", "text")

    def sql(self, column: Column | None) -> str:
        """What to select of a column; None is one that the table lacks."""
        if column is None:
            return f"CAST(NULL AS {_SQL_TYPES.get(self.kind, 'VARCHAR')})"
        c, kind = column
        if self.kind == "number":
            return _cast(c, kind, "DOUBLE", (*NUMBERS, "BOOLEAN"))
        if self.kind == "datetime":
            return f"epoch({_cast(c, kind, 'TIMESTAMP', DATETIMES)})"
        if self.kind == "vector":
            return _cast(c, kind if kind.endswith("]") else "", "DOUBLE[]", NUMBERS)
        text = trimmed(c)
        if self.kind == "bool":
            yes, no = (", ".join(map(quoted, words)) for words in (TRUE, FALSE))
            return f"CASE WHEN lower({text}) IN ({yes}) THEN 1.0::DOUBLE WHEN lower({text}) IN ({no}) THEN 0.0::DOUBLE END"
        return text

    def encode(self, values: Any) -> list[Array | sp.csr_array]:
        """The features of an Arrow array that ``sql`` selects; a second block marks missing values."""
        block, known = _ENCODE[self.kind](self, values)
        return [block, (~known).astype(np.float32)[:, None]] if self.missing else [block]


def finite(*numbers: Any) -> bool:
    return all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)


_SQL_TYPES = {"number": "DOUBLE", "datetime": "DOUBLE", "bool": "DOUBLE", "vector": "DOUBLE[]"}


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
    import pyarrow as pa
    import pyarrow.compute as pc

    index = pc.index_in(values, value_set=pa.array(encoder.values, values.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    return _one_hot(np.flatnonzero(index >= 0), index[index >= 0], len(values), encoder.width), _known(values)


def _hashed(encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    known = _known(values)
    return _one_hot(np.flatnonzero(known), text_buckets(values.drop_null(), encoder.width), len(values), encoder.width), known


def _text(encoder: ColumnEncoder, values: Any) -> tuple[sp.csr_array, Array]:
    """A bag of words, each row of length 1, so that long text weighs as much as short."""
    known = _known(values)
    text, bucket = word_buckets(values.drop_null(), encoder.width)
    rows = _one_hot(np.flatnonzero(known)[text], bucket, len(values), encoder.width)
    rows.sum_duplicates()
    counts = np.diff(rows.indptr)
    rows.data = np.repeat(1 / np.sqrt(np.maximum(1, counts)), counts).astype(np.float32)
    return rows, known


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
    "hashed": _hashed,
    "text": _text,
    "vector": _vector,
}

"""How one column becomes features: what is learned of it, and how values are then encoded."""

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
from clnr.tables.sql import MOMENTS, NUMBERS, quoted, trimmed
from clnr.tables.text_hashing import text_buckets, word_buckets

TRUE = ("true", "yes", "t", "y")
FALSE = ("false", "no", "f", "n")


@dataclass(frozen=True)
class Part:
    """How one column becomes features.

    Attributes:
        column: Its name.
        kind: ``number``, ``moment``, ``flag``, ``category``, ``hashed``, ``words`` or ``vector``.
        width: How many features.
        missing: Whether one more says that there is no value; only where some were missing when it was learned.
        centre: What is taken from a number.
        scale: What it is then divided by.
        values: A category's values, in the order of their features.
    """

    column: str
    kind: str
    width: int
    missing: bool = False
    centre: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _ENCODERS:
            raise UnknownName("kind of column", self.kind, _ENCODERS)
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
            raise DataError(f"this is no feature encoder of a table: the numbers of column {self.column!r} are out of range")

    @property
    def sparse(self) -> bool:
        return self.kind in ("category", "hashed", "words")

    def sql(self, column: Column | None) -> str:
        """What to select of a column, or of one that is not there."""
        if column is None:
            return f"CAST(NULL AS {_SELECTED.get(self.kind, 'VARCHAR')})"
        c, kind = column
        if self.kind == "number":
            return _cast(c, kind, "DOUBLE", (*NUMBERS, "BOOLEAN"))
        if self.kind == "moment":
            return f"epoch({_cast(c, kind, 'TIMESTAMP', MOMENTS)})"
        if self.kind == "vector":
            return _cast(c, kind if kind.endswith("]") else "", "DOUBLE[]", NUMBERS)
        text = trimmed(c)
        if self.kind == "flag":
            yes, no = (", ".join(map(quoted, words)) for words in (TRUE, FALSE))
            return f"CASE WHEN lower({text}) IN ({yes}) THEN 1.0::DOUBLE WHEN lower({text}) IN ({no}) THEN 0.0::DOUBLE END"
        return text

    def encode(self, values: Any) -> list[Array | sp.csr_array]:
        """The features of an Arrow array of what ``sql`` selects, in one block or two."""
        block, known = _ENCODERS[self.kind](self, values)
        return [block, (~known).astype(np.float32)[:, None]] if self.missing else [block]


def finite(*numbers: Any) -> bool:
    return all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)


_SELECTED = {"number": "DOUBLE", "moment": "DOUBLE", "flag": "DOUBLE", "vector": "DOUBLE[]"}


def _cast(c: str, kind: str, wanted: str, direct: tuple[str, ...]) -> str:
    """A value of another type is taken as it is written, and is missing where that cannot be read."""
    return f"TRY_CAST({c} AS {wanted})" if kind.startswith(direct) else f"TRY_CAST(CAST({c} AS VARCHAR) AS {wanted})"


def _number(part: Part, values: Any) -> tuple[Array, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = ((_floats(values) - part.centre) / part.scale).astype(np.float32)
    known = np.isfinite(scaled)
    return np.where(known, scaled, np.float32(0))[:, None], known


def _flag(part: Part, values: Any) -> tuple[Array, Array]:
    flags = _floats(values)
    known = ~np.isnan(flags)
    return np.where(known, flags, 0).astype(np.float32)[:, None], known


def _category(part: Part, values: Any) -> tuple[sp.csr_array, Array]:
    import pyarrow as pa
    import pyarrow.compute as pc

    place = pc.index_in(values, value_set=pa.array(part.values, values.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    return _rows(np.flatnonzero(place >= 0), place[place >= 0], len(values), part.width), _known(values)


def _hashed(part: Part, values: Any) -> tuple[sp.csr_array, Array]:
    known = _known(values)
    return _rows(np.flatnonzero(known), text_buckets(values.drop_null(), part.width), len(values), part.width), known


def _words(part: Part, values: Any) -> tuple[sp.csr_array, Array]:
    """Which words there are, scaled so that long texts weigh as much as short ones."""
    known = _known(values)
    text, bucket = word_buckets(values.drop_null(), part.width)
    rows = _rows(np.flatnonzero(known)[text], bucket, len(values), part.width)
    rows.sum_duplicates()
    counts = np.diff(rows.indptr)
    rows.data = np.repeat(1 / np.sqrt(np.maximum(1, counts)), counts).astype(np.float32)
    return rows, known


def _vector(part: Part, values: Any) -> tuple[Array, Array]:
    import pyarrow as pa
    import pyarrow.compute as pc

    known = np.asarray(pc.equal(pc.list_value_length(values), part.width).fill_null(False))
    flat = _floats(values.filter(pa.array(known)).flatten())
    with np.errstate(over="ignore", invalid="ignore"):
        # What is no number of 32 bits is none here, as it was when the scale was learned.
        scaled = np.where(np.isfinite(flat.astype(np.float32)), flat / part.scale, 0).astype(np.float32)
    out = np.zeros((len(values), part.width), np.float32)
    out[known] = np.where(np.isfinite(scaled), scaled, np.float32(0)).reshape(-1, part.width)
    return out, known


def _floats(values: Any) -> Array:
    return values.to_numpy(zero_copy_only=False)


def _known(values: Any) -> Array:
    return np.asarray(values.is_valid())


def _rows(row: Array, column: Array, count: int, width: int) -> sp.csr_array:
    """Ones at some places, which stand in the order of their rows."""
    start = np.searchsorted(row, np.arange(count + 1))
    return sp.csr_array((np.ones(len(row), np.float32), column, start), shape=(count, width))


_ENCODERS: dict[str, Callable[[Part, Any], tuple[Any, Array]]] = {
    "number": _number,
    "moment": _number,
    "flag": _flag,
    "category": _category,
    "hashed": _hashed,
    "words": _words,
    "vector": _vector,
}

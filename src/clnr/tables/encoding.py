"""Columns of a table of nodes as features, by their types; kept, so that tomorrow's nodes are encoded alike."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from clnr.edges import Array
from clnr.errors import DataError, UnknownName
from clnr.tables.source import named, quoted, run

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORM = 1
_FEW = 50
_HASHED = 256
_WORDS = 1024
_WORD = re.compile(r"\w+")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_NUMBERS = (*_WHOLE, *(f"U{kind}" for kind in _WHOLE), "DOUBLE", "FLOAT", "REAL", "DECIMAL")
_MOMENTS = ("DATE", "TIMESTAMP")
_TRUE = ("true", "yes", "t", "y")
_FALSE = ("false", "no", "f", "n")


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


@dataclass(frozen=True)
class Encoding:
    """How a table of nodes becomes features.

    A value that was not known when it was learned is no value: an unseen category has no feature, and a column that is not
    there is as one in which all values are missing.

    Attributes:
        parts: One for each column that is used.
        dropped: Columns that are not, each with the reason.
    """

    parts: tuple[Part, ...]
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return sum(part.width + part.missing for part in self.parts)

    @classmethod
    def fit(cls, base: DuckDBPyConnection, table: str, columns: Sequence[str], name: str) -> Encoding:
        """Learned from the columns of a table."""
        types = {row[0]: row[1] for row in run(base, f"DESCRIBE {table}", name)}
        parts, dropped = [], {}
        for column in columns:
            found = _part(base, table, column, types[column], name)
            if isinstance(found, Part):
                parts.append(found)
            else:
                dropped[column] = found
        if not parts:
            reasons = "; ".join(f"{column}: {reason}" for column, reason in dropped.items())
            raise DataError(f"{name}: no column of it can be a feature{': ' + reasons if reasons else ''}")
        return cls(tuple(parts), dropped)

    def transform(self, base: DuckDBPyConnection, table: str) -> Array | sp.csr_array:
        """The features of a table's rows, in their order: sparse where most of them are words or categories."""
        there = {row[0] for row in run(base, f"DESCRIBE {table}", table)}
        ((count,),) = run(base, f"SELECT count(*) FROM {table}", table)
        blocks = []
        for part in self.parts:
            values = _values(base, table, part) if part.column in there else [None] * count
            blocks += _encoded(part, values)
        if any(sp.issparse(block) for block in blocks):
            return sp.hstack([sp.csr_array(block) for block in blocks], format="csr", dtype=np.float32)
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def to_json(self) -> str:
        return json.dumps({"form": FORM, "parts": [asdict(part) for part in self.parts], "dropped": self.dropped}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Encoding:
        """As written by ``to_json``; anything else is refused, and nothing in it is ever run."""
        try:
            given = json.loads(text)
            if given["form"] != FORM:
                raise DataError(f"an encoding of form {given['form']!r} is not known here; this clnr writes form {FORM}")
            parts = tuple(Part(**{**each, "values": tuple(each["values"])}) for each in given["parts"])
            dropped = {str(column): str(reason) for column, reason in given["dropped"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"this is no encoding of a table: {error}") from None
        for part in parts:
            _check(part)
        return cls(parts, dropped)


def _check(part: Part) -> None:
    if part.kind not in _ENCODERS:
        raise UnknownName("kind of column", part.kind, _ENCODERS)
    right = (
        isinstance(part.column, str)
        and type(part.width) is int
        and 0 < part.width <= 1 << 20
        and isinstance(part.missing, bool)
        and all(isinstance(number, int | float) and math.isfinite(number) for number in (part.centre, part.scale))
        and part.scale != 0
        and all(isinstance(value, str) for value in part.values)
        and (part.kind != "category" or len(part.values) == part.width)
    )
    if not right:
        raise DataError(f"this is no encoding of a table: the numbers of column {part.column!r} are out of range")


# -- learning ---------------------------------------------------------------------------------------------------------------


def _part(base: DuckDBPyConnection, table: str, column: str, kind: str, name: str) -> Part | str:
    """How a column is encoded, or why it is not."""
    c = named(column)
    if kind.endswith("]"):
        return _vector(base, table, column, kind, name)
    if kind.startswith(("STRUCT", "MAP", "UNION", "BLOB", "BIT")):
        return f"a {kind.partition('(')[0].lower()} is no feature"
    if kind == "BOOLEAN":
        return _flag(base, table, column, f"CAST({c} AS VARCHAR)", name)
    if kind.startswith(_MOMENTS):
        return _number(base, table, column, f"epoch(CAST({c} AS TIMESTAMP))", "moment", name)
    if kind.startswith(_NUMBERS):
        return _number(base, table, column, c, "number", name)
    return _text(base, table, column, name)


def _text(base: DuckDBPyConnection, table: str, column: str, name: str) -> Part | str:
    """Text may hold numbers, flags, a few categories, many, or words."""
    text = _trimmed(column)
    flags_known = ", ".join(map(quoted, _TRUE + _FALSE))
    ((there, numbers, flags, distinct, words, rows),) = run(
        base,
        f"SELECT count(v), count(TRY_CAST(v AS DOUBLE)), count(*) FILTER (lower(v) IN ({flags_known})), "
        f"count(DISTINCT v), avg(len(v) - len(replace(v, ' ', ''))), count(*) FROM (SELECT {text} AS v FROM {table})",
        name,
    )
    if not there:
        return "it is empty"
    if distinct == 1 and there == rows:
        return "it is the same everywhere"
    if numbers == there:
        return _number(base, table, column, f"TRY_CAST({text} AS DOUBLE)", "number", name)
    if flags == there:
        return _flag(base, table, column, text, name)
    missing = there < rows
    if distinct <= _FEW:
        found = run(base, f"SELECT DISTINCT {text} AS v FROM {table} WHERE {text} IS NOT NULL ORDER BY v", name)
        values = tuple(row[0] for row in found)
        return Part(column, "category", len(values), missing, values=values)
    if words >= 1:
        return Part(column, "words", _WORDS, missing)
    return Part(column, "hashed", _HASHED, missing)


def _trimmed(column: str) -> str:
    return f"nullif(trim(CAST({named(column)} AS VARCHAR)), '')"


def _number(base: DuckDBPyConnection, table: str, column: str, sql: str, kind: str, name: str) -> Part | str:
    """Scaled to mean 0 and variance 1; what is no finite number is missing."""
    ((there, mean, spread, rows),) = run(
        base,
        f"SELECT count(v), avg(v), stddev_pop(v), count(*) FROM (SELECT CASE WHEN isfinite(x) THEN x END AS v "
        f"FROM (SELECT CAST({sql} AS DOUBLE) AS x FROM {table}))",
        name,
    )
    if not there:
        return "it is empty"
    missing = there < rows
    if not spread and not missing:
        return "it is the same everywhere"
    return Part(column, kind, 1, missing, float(mean), float(spread) or 1.0)


def _flag(base: DuckDBPyConnection, table: str, column: str, sql: str, name: str) -> Part | str:
    ((there, distinct, rows),) = run(
        base, f"SELECT count(v), count(DISTINCT lower(v)), count(*) FROM (SELECT {sql} AS v FROM {table})", name
    )
    if not there:
        return "it is empty"
    if distinct == 1 and there == rows:
        return "it is the same everywhere"
    return Part(column, "flag", 1, there < rows)


def _vector(base: DuckDBPyConnection, table: str, column: str, kind: str, name: str) -> Part | str:
    """A list of numbers, as long in every row; scaled by one number for all."""
    if not kind.startswith(_NUMBERS):
        return f"a list of {kind.rstrip('[]0123456789').lower()} is no feature"
    c = named(column)
    ((there, shortest, longest, rows),) = run(
        base, f"SELECT count({c}), min(len({c})), max(len({c})), count(*) FROM {table}", name
    )
    if not there or not longest:
        return "it is empty"
    if shortest != longest:
        ((row,),) = run(base, f"SELECT min(rowid) FROM {table} WHERE len({c}) <> {longest}", name)
        raise DataError(f"{name}: '{column}' has {longest} numbers in some rows and another count in row {row + 1:,}")
    ((square,),) = run(
        base, f"SELECT avg(x * x) FROM (SELECT unnest(CAST({c} AS DOUBLE[])) AS x FROM {table}) WHERE isfinite(x)", name
    )
    return Part(column, "vector", int(longest), there < rows, scale=math.sqrt(square or 0) or 1.0)


# -- encoding ---------------------------------------------------------------------------------------------------------------


def _values(base: DuckDBPyConnection, table: str, part: Part) -> list[Any]:
    """A column's values, None where there is none."""
    c = named(part.column)
    sql = {
        "number": f"TRY_CAST({c} AS DOUBLE)",
        "moment": f"epoch(TRY_CAST({c} AS TIMESTAMP))",
        "vector": c,
    }.get(part.kind, _trimmed(part.column))
    rows = run(base, f"SELECT {sql} FROM {table} ORDER BY rowid", table)
    return [row[0] for row in rows]


def _encoded(part: Part, values: list[Any]) -> list[Array | sp.csr_array]:
    block, known = _ENCODERS[part.kind](part, values)
    return [block, (~known).astype(np.float32)[:, None]] if part.missing else [block]


def _encode_number(part: Part, values: list[Any]) -> tuple[Array, Array]:
    numbers = np.array([math.nan if value is None else float(value) for value in values], np.float64)
    known = np.isfinite(numbers)
    return np.where(known, (numbers - part.centre) / part.scale, 0.0).astype(np.float32)[:, None], known


def _encode_flag(part: Part, values: list[Any]) -> tuple[Array, Array]:
    words = [None if value is None else str(value).lower() for value in values]
    known = np.array([word in _TRUE + _FALSE for word in words], bool)
    return np.array([word in _TRUE for word in words], np.float32)[:, None], known


def _encode_category(part: Part, values: list[Any]) -> tuple[sp.csr_array, Array]:
    place = {value: i for i, value in enumerate(part.values)}
    return _rows([[place[value]] if value in place else [] for value in values], part.width), _known(values)


def _encode_hashed(part: Part, values: list[Any]) -> tuple[sp.csr_array, Array]:
    return _rows([[] if value is None else [_bucket(value, part.width)] for value in values], part.width), _known(values)


def _encode_words(part: Part, values: list[Any]) -> tuple[sp.csr_array, Array]:
    """Which words there are, scaled so that long texts weigh as much as short ones."""
    found = [
        [] if value is None else sorted({_bucket(word, part.width) for word in _WORD.findall(value.lower())})
        for value in values
    ]
    rows = _rows(found, part.width)
    counts = np.maximum(1, np.diff(rows.indptr))
    rows.data = (rows.data / np.sqrt(np.repeat(counts, np.diff(rows.indptr)))).astype(np.float32)
    return rows, _known(values)


def _encode_vector(part: Part, values: list[Any]) -> tuple[Array, Array]:
    known = np.array([value is not None and len(value) == part.width for value in values], bool)
    out = np.zeros((len(values), part.width), np.float32)
    for row in np.flatnonzero(known):
        out[row] = [number if number is not None and math.isfinite(number) else 0.0 for number in values[row]]
    return out / np.float32(part.scale), known


def _rows(columns: list[list[int]], width: int) -> sp.csr_array:
    start = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
    flat = np.array([column for row in columns for column in row], np.int64)
    return sp.csr_array((np.ones(len(flat), np.float32), flat, start), shape=(len(columns), width))


def _known(values: list[Any]) -> Array:
    return np.array([value is not None for value in values], bool)


def _bucket(word: str, width: int) -> int:
    return zlib.crc32(word.encode()) % width


_ENCODERS = {
    "number": _encode_number,
    "moment": _encode_number,
    "flag": _encode_flag,
    "category": _encode_category,
    "hashed": _encode_hashed,
    "words": _encode_words,
    "vector": _encode_vector,
}

"""Columns of a table of nodes as features, by their types; kept, so that tomorrow's nodes are encoded alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.tables.column_encoders import Part
from clnr.tables.infer import learn
from clnr.tables.source import Table
from clnr.tables.sql import arrow, run
from clnr.tables.structural import StructuralFeatures

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORMAT_VERSION = 2
_ROWS = 1 << 18
_NUMBERS = 1 << 23
_LETTERS = 1 << 25


@dataclass(frozen=True)
class FeatureEncoder:
    """How nodes get their features: from the columns of their table, or from the structure of the graph.

    A value that was not known when it was learned is no value: an unseen category has no feature, and a column that is not
    there is as one in which all values are missing.

    Attributes:
        parts: One for each column that is used.
        dropped: Columns that are not, each with the reason.
        structure: How features from structure are scaled; where it is set, there are no others.
    """

    parts: tuple[Part, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)
    structure: StructuralFeatures | None = None

    def __post_init__(self) -> None:
        if self.parts and self.structure is not None:
            raise DataError(
                "this is no feature encoder of a table: features come from columns or from structure, not from both"
            )

    @property
    def width(self) -> int:
        return sum(part.width + part.missing for part in self.parts) + (0 if self.structure is None else self.structure.width)

    @classmethod
    def fit(cls, base: DuckDBPyConnection, people: Table, columns: Sequence[str]) -> FeatureEncoder:
        """Learned from the columns of a stored table; without parts where none of them can be a feature."""
        found = {column: learn(base, people, column) for column in columns}
        parts = tuple(each for each in found.values() if isinstance(each, Part))
        return cls(parts, {column: each for column, each in found.items() if isinstance(each, str)})

    def transform(self, base: DuckDBPyConnection, people: Table) -> Array | sp.csr_array:
        """The features of a stored table's rows by their columns, in their order: sparse where some are words or categories.

        Beside the features themselves, it holds some 260,000 rows at a time, fewer where they hold long texts or lists.
        """
        selected = ", ".join(part.sql(people.columns.get(part.column)) for part in self.parts)
        texts = [people.columns[part.column].sql for part in self.parts if part.sparse and part.column in people.columns]
        letters = " + ".join(["0", *(f"coalesce(sum(strlen(CAST({c} AS VARCHAR))), 0)" for c in texts)])
        ((count, size),) = run(base, f"SELECT count(*), {letters} FROM {people.sql}", people.name)
        sparse = any(part.sparse for part in self.parts)
        out: Any = [] if sparse else np.empty((count, self.width), np.float32)
        wide = sum(part.width for part in self.parts if not part.sparse)
        step = max(1, min(_ROWS, _NUMBERS // max(1, wide), count * _LETTERS // max(1, int(size))))
        for start in range(0, max(1, count), step):
            rows = f"{people.sql} WHERE i >= {start} AND i < {start + step} ORDER BY i"
            values = arrow(base, f"SELECT {selected} FROM {rows}", people.name)
            blocks = [block for part, each in zip(self.parts, values, strict=True) for block in part.encode(each)]
            if sparse:
                out.append(sp.hstack([sp.csr_array(block) for block in blocks], format="csr", dtype=np.float32))
            else:
                np.concatenate(blocks, axis=1, out=out[start : start + step])
        return sp.vstack(out, format="csr", dtype=np.float32) if sparse else out

    def unknown(self, count: int) -> Array | sp.csr_array:
        """The features of nodes of which nothing is known."""
        row = np.concatenate([np.repeat([0, 1], [part.width, part.missing]) for part in self.parts]).astype(np.float32)[None]
        rows = np.zeros(count, np.int64)
        return sp.csr_array(row)[rows] if any(part.sparse for part in self.parts) else row[rows]

    def to_json(self) -> str:
        structure = None if self.structure is None else asdict(self.structure)
        content = {"parts": [asdict(part) for part in self.parts], "dropped": self.dropped, "structure": structure}
        return json.dumps({"form": FORMAT_VERSION} | content, indent=1)

    @classmethod
    def from_json(cls, text: str) -> FeatureEncoder:
        """As written by ``to_json``, also by earlier versions; anything else is refused, and nothing in it is ever run."""
        try:
            given = json.loads(text)
            if given["form"] not in (1, FORMAT_VERSION):
                raise DataError(
                    f"a feature encoder of form {given['form']!r} is not known here; this clnr writes form {FORMAT_VERSION}"
                )
            parts = tuple(Part(**{**each, "values": tuple(each["values"])}) for each in given["parts"])
            dropped = {str(column): str(reason) for column, reason in given["dropped"].items()}
            scaling = given["structure"] if given["form"] == FORMAT_VERSION else None
            structure = None if scaling is None else StructuralFeatures(**{name: tuple(each) for name, each in scaling.items()})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"this is no feature encoder of a table: {error}") from None
        if not parts and structure is None:
            raise DataError("this is no feature encoder of a table: it has no feature")
        return cls(parts, dropped, structure)

"""Node features from the columns of a table, a matrix, or the structure of the graph; saved, to encode later nodes alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.tables.columns.column_types import ColumnEncoder
from clnr.tables.columns.infer import infer
from clnr.tables.io.feature_matrix import FeatureMatrix, MatrixEncoder
from clnr.tables.io.open import Table
from clnr.tables.io.sql import Connection, fetch_columns, run
from clnr.tables.kinds import NODE_KIND, qualified_name
from clnr.tables.structural import DEGREES, StructuralFeatures

# The most rows, dense features and characters of a chunk.
_CHUNK_ROWS, _CHUNK_NUMBERS, _CHUNK_CHARACTERS = 1 << 18, 1 << 21, 1 << 24


@dataclass(frozen=True)
class FeatureEncoder:
    """How nodes get their features: from the columns of their table and a matrix, or from the structure of the graph.

    A category or word that was unseen at ``fit`` has no feature, unless its column has buckets for others; in a column that a
    table lacks, all values are missing.

    Attributes:
        columns: An encoder for each column that is used.
        unused: The reason for each column that is not.
        structure: How features from structure are scaled; if set, there are no columns and no matrix.
        matrix: How a matrix beside the table is scaled; its features come last.
    """

    columns: tuple[ColumnEncoder, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)
    structure: StructuralFeatures | None = None
    matrix: MatrixEncoder | None = None

    @property
    def encodes(self) -> bool:
        """Whether features come from columns or a matrix."""
        return bool(self.columns) or self.matrix is not None

    @property
    def width(self) -> int:
        of_structure = 0 if self.structure is None else DEGREES
        return sum(each.features for each in self.columns) + of_structure + (0 if self.matrix is None else self.matrix.width)

    @property
    def sparse(self) -> bool:
        """Whether features are a sparse matrix: some are categories, text or tags, or a matrix beside the table is."""
        return any(each.sparse for each in self.columns) or (self.matrix is not None and self.matrix.sparse)

    @property
    def node_kinds(self) -> tuple[str, ...]:
        """The kinds of nodes that it encodes; none if nodes have no kinds."""
        has_kinds = any(each.node_kind for each in self.columns)
        return next((each.values for each in self.columns if has_kinds and each.column == NODE_KIND), ())

    @classmethod
    def fit(cls, db: Connection, table: Table, columns: Sequence[str], types: Mapping[str, str], asked: bool) -> FeatureEncoder:
        """Inferred from those columns of a stored table that may be features; see ``infer``."""
        found = infer(
            db, table, columns, types, asked, lambda name, value: (part for (part,) in fetch_chunks(db, table, [value], [name]))
        )
        unused = {name: each for name, each in found.items() if isinstance(each, str)}
        return cls(tuple(each for each in found.values() if isinstance(each, ColumnEncoder)), unused)

    @classmethod
    def join(cls, by_kind: Mapping[str, FeatureEncoder]) -> FeatureEncoder:
        """The encoders of several kinds of nodes side by side, after one feature for each kind."""
        columns = tuple(
            replace(each, column=qualified_name(kind, each.column), node_kind=kind)
            for kind, encoder in by_kind.items()
            for each in encoder.columns
        )
        unused = {qualified_name(kind, name): why for kind, each in by_kind.items() for name, why in each.unused.items()}
        kinds = ColumnEncoder(NODE_KIND, "category", len(by_kind), values=tuple(by_kind), distinct=len(by_kind))
        return cls((kinds, *columns) if columns else (), unused)

    def blocks(self, db: Connection, table: Table, matrix: FeatureMatrix | None = None) -> Iterator[Any]:
        """The features of a stored table's rows, and of the matrix beside it, some rows at a time: arrays or sparse ones."""
        kind = f"{table.columns[NODE_KIND].sql} AS kind" if self.node_kinds else "NULL AS kind"
        selected = ["i", kind, *(each.sql(table.columns.get(each.column)) for each in self.columns)]
        texts = {each.column for each in self.columns if each.sparse} & table.columns.keys()
        width = sum(each.width for each in self.columns if not each.sparse)
        width += 0 if self.matrix is None or self.matrix.sparse else self.matrix.width
        first = 0
        for rows, kinds, *values in fetch_chunks(db, table, selected, texts, width):
            of_rows = kinds.to_numpy(zero_copy_only=False) if self.node_kinds else None
            pairs = zip(self.columns, values, strict=True)
            parts = [part for encoder, column in pairs for part in encoder.encode(column, of_rows)]
            if self.matrix is not None:
                parts.append(self.matrix.encode(matrix, first, first + len(rows)))
            first += len(rows)
            if self.sparse:
                yield sp.hstack([sp.csr_array(part) for part in parts], format="csr", dtype=np.float32)
            else:
                yield np.concatenate(parts, axis=1, dtype=np.float32)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as they come back from a file, from which ``of`` makes it again."""
        structure, matrix = (None if part is None else _with_lists(part) for part in (self.structure, self.matrix))
        return {
            "columns": [_with_lists(each) for each in self.columns],
            "unused": dict(self.unused),
            "structure": structure,
            "matrix": matrix,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> FeatureEncoder:
        """What ``to_json`` gave; anything else is an error, and no code in it is run."""
        try:
            columns = tuple(ColumnEncoder(**_with_tuples(each, "values", "weights")) for each in content["columns"])
            structure, matrix = content["structure"], content["matrix"]
            scaling = None if structure is None else StructuralFeatures(**_with_tuples(structure, "centre", "scale"))
            of_matrix = None if matrix is None else MatrixEncoder(**matrix)
            encoder = cls(columns, {str(name): str(why) for name, why in content["unused"].items()}, scaling, of_matrix)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"not a valid saved encoder: {error}") from None
        if encoder.encodes == (scaling is not None):
            raise DataError("not a valid saved encoder: features come from columns or from structure")
        return encoder


def _with_lists(part: Any) -> dict[str, Any]:
    return {name: [*value] if isinstance(value, tuple) else value for name, value in asdict(part).items()}


def _with_tuples(saved: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {**saved} | {name: tuple(saved[name]) for name in names if isinstance(saved[name], list)}


def fetch_chunks(
    db: Connection, table: Table, selected: Sequence[str], texts: Sequence[str] | set[str], width: int = 0
) -> Iterator[list[Any]]:
    """What is selected of a stored table's rows, in order, as Arrow arrays; an empty table is one empty chunk.

    Chunks are smaller where the text of some columns is long, and where a row will have many dense features: ``width``.
    """
    lengths = (f"coalesce(sum(strlen(CAST({table.columns[name].sql} AS VARCHAR))), 0)" for name in texts)
    ((count, size),) = run(db, f"SELECT count(*), list_sum([{', '.join(['0', *lengths])}]) FROM {table.sql}", table.name)
    step = max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, width), count * _CHUNK_CHARACTERS // max(1, int(size))))
    for start in range(0, max(1, count), step):
        rows = f"{table.sql} WHERE i >= {start} AND i < {start + step} ORDER BY i"
        yield [column.combine_chunks() for column in fetch_columns(db, selected, rows, table.name)]

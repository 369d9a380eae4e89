"""Node features from the columns of a table, a matrix, or the structure of the graph; saved, to encode later nodes alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import Array
from clnr.support.storage import check_version
from clnr.tables.columns.column_encoders import ColumnEncoder
from clnr.tables.columns.column_queries import run_column_queries
from clnr.tables.columns.infer import query_encoder
from clnr.tables.columns.structural import DEGREES, StructuralFeatures
from clnr.tables.io.feature_matrix import FeatureMatrix, MatrixEncoder
from clnr.tables.io.source import Table, fetch_chunks
from clnr.tables.io.sql import Connection, run
from clnr.tables.roles.column_names import NODE_KIND, plain_name, qualified_name

FORMAT_VERSION = 6


@dataclass(frozen=True)
class FeatureEncoder:
    """How nodes get their features: from the columns of their table and a matrix, or from the structure of the graph.

    A category or word that was unseen at ``fit`` has no feature, unless its column has buckets for others; in a column that a
    table lacks, all values are missing.

    Attributes:
        column_encoders: One for each column that is used.
        dropped: The reason for each column that is not.
        structure: How features from structure are scaled; if set, there are no column encoders and no matrix.
        matrix: How a matrix beside the table is scaled; its features come last.
    """

    column_encoders: tuple[ColumnEncoder, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)
    structure: StructuralFeatures | None = None
    matrix: MatrixEncoder | None = None

    def __post_init__(self) -> None:
        if self.encodes and self.structure is not None:
            raise DataError("not a valid feature encoder: features come from columns or from structure, not from both")

    @property
    def encodes(self) -> bool:
        """Whether features come from columns or a matrix."""
        return bool(self.column_encoders) or self.matrix is not None

    @property
    def width(self) -> int:
        columns = sum(encoder.width + encoder.missing for encoder in self.column_encoders)
        of_structure = 0 if self.structure is None else DEGREES
        return columns + of_structure + (0 if self.matrix is None else self.matrix.width)

    @property
    def sparse(self) -> bool:
        """Whether features are a sparse matrix: some are categories, text or tags, or a matrix beside the table is."""
        return any(encoder.sparse for encoder in self.column_encoders) or (self.matrix is not None and self.matrix.sparse)

    @property
    def node_kinds(self) -> tuple[str, ...]:
        """The kinds of nodes that it encodes; none if nodes have no kinds."""
        has_kinds = any(each.node_kind for each in self.column_encoders)
        return next((each.values for each in self.column_encoders if has_kinds and each.column == NODE_KIND), ())

    def of_kind(self, kind: str) -> FeatureEncoder:
        """How the columns of one kind of nodes are encoded, by the names that they have in their table."""
        of_kind = (each for each in self.column_encoders if each.node_kind == kind)
        dropped = {plain_name(name): why for name, why in self.dropped.items() if name.startswith(f"{kind}.")}
        return FeatureEncoder(tuple(replace(each, column=plain_name(each.column)) for each in of_kind), dropped)

    @classmethod
    def fit(
        cls,
        db: Connection,
        table: Table,
        columns: Sequence[str],
        types: Mapping[str, str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> FeatureEncoder:
        """Inferred from those columns of a stored table that may be features; without column encoders if none can be one.

        What some of them hold may be given, one of ``COLUMN_WORDS``; ``progress`` is called with how many are done.
        """
        steps = [query_encoder(db, table, column, (types or {}).get(column)) for column in columns]
        inferred = run_column_queries(db, table.name, steps, progress)
        dropped = {column: each for column, each in zip(columns, inferred, strict=True) if isinstance(each, str)}
        return cls(tuple(each for each in inferred if isinstance(each, ColumnEncoder)), dropped)

    @classmethod
    def join(cls, by_kind: Mapping[str, FeatureEncoder]) -> FeatureEncoder:
        """The encoders of several kinds of nodes side by side, after one feature for each kind."""
        qualified = tuple(
            replace(each, column=qualified_name(kind, each.column), node_kind=kind)
            for kind, encoder in by_kind.items()
            for each in encoder.column_encoders
        )
        dropped = {qualified_name(kind, name): why for kind, each in by_kind.items() for name, why in each.dropped.items()}
        if not qualified:
            return cls((), dropped)
        kinds = ColumnEncoder(NODE_KIND, "category", len(by_kind), values=tuple(by_kind), distinct=len(by_kind))
        return cls((kinds, *qualified), dropped)

    def transform(self, db: Connection, table: Table, matrix: FeatureMatrix | None = None) -> Array | sp.csr_array:
        """The features of a stored table's rows, and of the matrix beside it, which has as many."""
        if self.sparse:
            return sp.vstack(list(self.blocks(db, table, matrix)), format="csr", dtype=np.float32)
        ((count,),) = run(db, f"SELECT count(*) FROM {table.sql}", table.name)
        out = np.empty((count, self.width), np.float32)
        start = 0
        for block in self.blocks(db, table, matrix):
            out[start : start + len(block)] = block
            start += len(block)
        return out

    def blocks(self, db: Connection, table: Table, matrix: FeatureMatrix | None = None) -> Iterator[Any]:
        """The same features, at most 260,000 rows at a time; fewer if they have long text or lists."""
        kind = f"{table.columns[NODE_KIND].sql} AS kind" if self.node_kinds else "NULL AS kind"
        columns = (encoder.sql(table.columns.get(encoder.column)) for encoder in self.column_encoders)
        selected = ["i", kind, *columns]
        texts = {encoder.column for encoder in self.column_encoders if encoder.sparse} & table.columns.keys()
        width = sum(encoder.width for encoder in self.column_encoders if not encoder.sparse)
        if self.matrix is not None and not self.matrix.sparse:
            width += self.matrix.width
        first = 0
        for rows, kinds, *values in fetch_chunks(db, table, selected, texts, width):
            of_rows = kinds.to_numpy(zero_copy_only=False) if self.node_kinds else None
            pairs = zip(self.column_encoders, values, strict=True)
            parts = [part for encoder, column in pairs for part in encoder.encode(column, of_rows)]
            if self.matrix is not None:
                parts.append(self.matrix.encode(matrix, first, first + len(rows)))
            first += len(rows)
            if self.sparse:
                yield sp.hstack([sp.csr_array(part) for part in parts], format="csr", dtype=np.float32)
            else:
                yield np.concatenate(parts, axis=1, dtype=np.float32)

    def unknown(self, count: int) -> Array | sp.csr_array:
        """The features of nodes whose values are all missing."""
        parts = [np.repeat([0, 1], [encoder.width, encoder.missing]) for encoder in self.column_encoders]
        if self.matrix is not None:
            parts.append(np.zeros(self.matrix.width))
        row = np.concatenate(parts).astype(np.float32)[None]
        rows = np.zeros(count, np.int64)
        return sp.csr_array(row)[rows] if self.sparse else row[rows]

    def to_json(self) -> str:
        structure = None if self.structure is None else asdict(self.structure)
        columns = [asdict(encoder) for encoder in self.column_encoders]
        for column in columns:
            for name in ("node_kind", "notation", "unit"):
                if not column[name]:
                    del column[name]
        matrix = None if self.matrix is None else asdict(self.matrix)
        content = {"form": FORMAT_VERSION, "column_encoders": columns, "dropped": self.dropped, "structure": structure}
        return json.dumps({**content, "matrix": matrix}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> FeatureEncoder:
        """Read what ``to_json`` wrote; anything else is an error, and no code in it is run."""
        try:
            given = json.loads(text)
            check_version(given["form"], FORMAT_VERSION)
            columns, scaling, matrix_encoder = given["column_encoders"], given["structure"], given["matrix"]
            encoders = tuple(ColumnEncoder(**_with_tuples(each, "values", "weights")) for each in columns)
            dropped = {str(column): str(reason) for column, reason in given["dropped"].items()}
            structure = None if scaling is None else StructuralFeatures(**_with_tuples(scaling, "centre", "scale"))
            matrix = None if matrix_encoder is None else MatrixEncoder(**matrix_encoder)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"not a valid saved feature encoder: {error}") from None
        if not encoders and structure is None and matrix is None:
            raise DataError("not a valid saved feature encoder: it has no features")
        return cls(encoders, dropped, structure, matrix)


def _with_tuples(saved: dict[str, Any], *names: str) -> dict[str, Any]:
    return saved | {name: tuple(saved[name]) for name in names if isinstance(saved[name], list)}

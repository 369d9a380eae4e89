"""The feature encoder of tables: fitted on them, or an earlier one that can encode them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from clnr.errors import DataError
from clnr.support.humanize import plural
from clnr.support.progress import NowAndThen
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.type_warnings import type_warnings
from clnr.tables.io.feature_matrix import MatrixEncoder
from clnr.tables.io.source import Table
from clnr.tables.kinds.node_kinds import NodeKind
from clnr.tables.load import Loaded
from clnr.tables.roles.roles import Roles
from clnr.tables.table_arguments import TableArguments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def encoder_for(db: DuckDBPyConnection, loaded: Loaded, arguments: TableArguments) -> tuple[FeatureEncoder, list[str]]:
    """The feature encoder, and notes; one that encodes nothing means that features come from structure."""
    node_table, matrix, base = loaded.node_table, loaded.matrix, arguments.base
    given = arguments.feature_encoder if base is None else base.feature_encoder
    if given is not None:
        return given, _check_encoder(given, loaded, arguments)
    if node_table is None:
        return FeatureEncoder(), []
    if node_table.outputs is not None:
        encoder, remarks = _fit_kinds(db, loaded.node_kinds, arguments.progress)
    else:
        encoder, remarks = _fit(db, node_table, loaded.roles, arguments.progress)
    if matrix is not None:
        encoder = replace(encoder, matrix=MatrixEncoder.fit(matrix))
    if encoder.encodes or loaded.from_edges:
        return encoder, remarks
    why = "; ".join(f"{column}: {reason}" for column, reason in encoder.dropped.items())
    why = why or "there are none besides ids, labels and times"
    return encoder, [
        f"{node_table.name}: none of its columns can be a feature, so features come from the structure of the graph: {why}"
    ]


def _fit(
    db: DuckDBPyConnection, table: Table, roles: Roles, progress: Callable[[str], None] | None
) -> tuple[FeatureEncoder, list[str]]:
    """The encoder of a table, and notes about columns that may be read as something else."""
    time = NowAndThen()

    def say(done: int) -> None:
        if progress is not None and time.due():
            progress(f"{table.name}: {done:,} of {plural(len(roles.features), 'column')} are read")

    encoder = FeatureEncoder.fit(db, table, roles.features, roles.types, say)
    return encoder, type_warnings(db, table, [each for each in encoder.column_encoders if each.column not in roles.types])


def _fit_kinds(
    db: DuckDBPyConnection, kinds: Sequence[NodeKind], progress: Callable[[str], None] | None
) -> tuple[FeatureEncoder, list[str]]:
    fitted = {kind.name: _fit(db, kind.table, kind.roles, progress) for kind in kinds}
    remarks = [remark for _, each in fitted.values() for remark in each]
    return FeatureEncoder.join({name: encoder for name, (encoder, _) in fitted.items()}), remarks


def _check_encoder(given: FeatureEncoder, loaded: Loaded, arguments: TableArguments) -> list[str]:
    """Raise unless an earlier encoder can encode these tables; notes about what they lack."""
    node_table, matrix, base = loaded.node_table, loaded.matrix, arguments.base
    if base is not None and given.encodes and given.width != base.graph.num_features:
        width = base.graph.num_features
        raise DataError(f"the earlier graph has {width:,} features a node, but its feature encoder makes {given.width:,}")
    if loaded.from_edges and base is None and given.encodes:
        raise DataError("the feature_encoder encodes a node table, and there is none; give one, or leave out feature_encoder")
    if matrix is not None:
        if given.matrix is None:
            raise DataError(f"{matrix.name}: the model was fitted without a feature matrix; leave it out")
        given.matrix.check(matrix)
    if node_table is None or loaded.from_edges:
        return []
    there = {"", *(kind.name for kind in loaded.node_kinds)}
    encoded = [encoder.column for encoder in given.column_encoders if encoder.node_kind in there]
    lacks = [f"'{column}'" for column in encoded if column not in node_table.columns]
    has_none = 0 < len(lacks) == len(encoded) - bool(loaded.node_kinds)
    if has_none and loaded.roles.features and not arguments.allow_missing_columns:
        raise DataError(
            f"{node_table.name}: it has none of the columns that the model takes, such as {', '.join(lacks[:5])}, so it "
            "seems to be of another data set; --allow-missing-columns (allow_missing_columns=True) embeds it all the same"
        )
    remarks = [f"{node_table.name}: it lacks {', '.join(lacks)}; all values are missing"] if lacks else []
    if given.matrix is not None and matrix is None:
        remarks.append(f"{node_table.name}: the feature matrix of these nodes (--feature-matrix) is missing; it counts as 0")
    return remarks

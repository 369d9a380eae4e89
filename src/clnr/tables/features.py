"""Features of nodes: an encoder for the columns that there are, and what it makes of them; else the structure of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, option
from clnr.graph.csr import Array
from clnr.support.humanize import plural
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.io.feature_matrix import FeatureMatrix, MatrixEncoder
from clnr.tables.io.sql import Connection, run
from clnr.tables.kinds import qualified_name
from clnr.tables.node_rows import StagedNodes
from clnr.tables.roles import columns_called, plain
from clnr.tables.structural import StructuralFeatures, log_degree, neighbour_degrees, neighbours
from clnr.tables.table_arguments import TableArguments

_NODES_AT_A_TIME = 1 << 17


def choose_encoder(db: Connection, staged: StagedNodes, arguments: TableArguments) -> tuple[FeatureEncoder, list[str]]:
    """The encoder of the columns of nodes, that of an earlier graph or one that is fitted, and notes."""
    if arguments.fitted is not None:
        encoder, base = FeatureEncoder.of(arguments.fitted), arguments.base
        if base is not None and (encoder.width, encoder.sparse) != (base.num_features, base.sparse):
            raise DataError(
                f"the encoder of the earlier graph makes {encoder.width:,} features, and it has {base.num_features:,}"
            )
        return encoder, _about_missing(staged, encoder, arguments)
    by_kind, asked = {}, arguments.features is not None
    for each in staged.kinds:
        named = columns_called(arguments.names_of("features"), each.table, each.kind)
        free = [name for name in each.roles.free if name != each.names]
        columns = [name for name in free if (name in named if asked else plain(name) != "label")]
        types = {
            name: kind for given, kind in arguments.types.items() for name in columns_called([given], each.table, each.kind)
        }
        if wrong := [name for name in (*named, *types) if name not in free]:
            raise DataError(f"{each.table.name}: '{wrong[0]}' is the id, the label, the name or an end, and no feature")
        encoder = FeatureEncoder.fit(db, each.table, columns, types, asked)
        unasked = {name: "it is called label, and was not asked for" for name in free if plain(name) == "label" and not asked}
        by_kind[each.kind or ""] = replace(encoder, unused={**encoder.unused, **unasked})
    encoder = FeatureEncoder.join(by_kind) if staged.of_kinds and by_kind else by_kind.get("", FeatureEncoder())
    if arguments.feature_matrix is not None:
        encoder = replace(encoder, matrix=MatrixEncoder.fit(FeatureMatrix.open(arguments.feature_matrix)))
    if encoder.encodes or not staged.kinds:
        return encoder, []
    why = (
        "; ".join(f"{column}: {reason}" for column, reason in encoder.unused.items()) or "it has none but ids, labels and names"
    )
    return encoder, [
        f"{staged.table.name}: no column can be a feature, so features come from the structure of the graph: {why}"
    ]


def _about_missing(staged: StagedNodes, encoder: FeatureEncoder, arguments: TableArguments) -> list[str]:
    """A note about columns of an earlier encoder that tables lack; a warning if these are all of them."""
    kinds = {each.kind or "" for each in staged.kinds}
    if encoder.encodes and not kinds and arguments.base is None:
        raise DataError(f"the earlier graph has features of a node table: pass one ({option('nodes')})")
    there = {qualified_name(each.kind, name) for each in staged.kinds for name in each.table.columns}
    wanted = [each.column for each in encoder.columns if each.node_kind in kinds]
    lacks = [f"'{name}'" for name in wanted if name not in there]
    if encoder.matrix is not None and kinds and arguments.feature_matrix is None:
        lacks.append("the feature matrix")
    if not lacks:
        return []
    all_of_them = len(lacks) >= len(wanted) + (encoder.matrix is not None)
    found = f"it lacks {', '.join(lacks)}{', all columns of the model' if all_of_them else ''}; all values are missing"
    return [f"{'warning: ' if all_of_them else ''}{staged.table.name}: {found}"]


def write_features(
    db: Connection, writer: Any, staged: StagedNodes, encoder: FeatureEncoder, arguments: TableArguments
) -> None:
    """Write the features of all rows of nodes."""
    matrix = None if arguments.feature_matrix is None else FeatureMatrix.open(arguments.feature_matrix)
    if matrix is not None:
        _check_matrix(db, staged, matrix, encoder)
    blocks = encoder.blocks(db, staged.table, matrix)
    if not encoder.sparse:
        with writer.array("features.values") as append:
            for block in blocks:
                append(block)
        return
    with (
        writer.array("features.indptr") as ends,
        writer.array("features.indices") as indices,
        writer.array("features.values") as values,
    ):
        ends(np.zeros(1, np.int64))
        total = 0
        for block in blocks:
            block.sum_duplicates()
            ends(block.indptr[1:].astype(np.int64) + total)
            indices(block.indices)
            values(block.data)
            total += block.nnz


def _check_matrix(db: Connection, staged: StagedNodes, matrix: FeatureMatrix, encoder: FeatureEncoder) -> None:
    """Raise unless the rows of a feature matrix are those of nodes."""
    if encoder.matrix is None:
        raise DataError(f"{matrix.name}: the earlier graph has no feature matrix; leave it out")
    if matrix.shape[1] != encoder.matrix.width:
        raise DataError(
            f"{matrix.name}: it has {matrix.shape[1]:,} columns, and that of the earlier graph {encoder.matrix.width:,}"
        )
    ((count,),) = run(db, "SELECT count(*) FROM node_rows", "nodes")
    if count != matrix.shape[0]:
        sizes = f"it has {plural(matrix.shape[0], 'row')}, and {staged.table.name} {count:,}"
        raise DataError(f"{matrix.name}: {sizes}; row i of both must be the same node")


def write_structure(writer: Any, count: int, structure: StructuralFeatures | None, directed: bool) -> StructuralFeatures:
    """Write features from the edges that are written; returns how they are scaled, which is fitted if it is not given."""
    ranges = [(first, min(first + _NODES_AT_A_TIME, count)) for first in range(0, count, _NODES_AT_A_TIME)]

    def adjacent(first: int, last: int) -> sp.csr_array:
        """A row for each of these nodes, of their neighbours in either direction."""
        rows = []
        for way in ("incoming", "outgoing")[: 1 + directed]:
            indptr = writer.read_back(f"{way}.indptr")[first : last + 1]
            indices = writer.read_back(f"{way}.indices")[indptr[0] : indptr[-1]]
            rows.append(
                sp.csr_array((np.ones(len(indices), np.float32), indices, indptr - indptr[0]), shape=(last - first, count))
            )
        return neighbours(*rows) if directed else rows[0]

    degree = np.concatenate([log_degree(adjacent(*each)) for each in ranges])

    def columns() -> Iterator[Array]:
        for first, last in ranges:
            yield neighbour_degrees(degree[first:last], degree, adjacent(first, last))

    if structure is None:
        structure = StructuralFeatures.fit_parts(columns(), count)
    with writer.array("features.values") as append:
        for each in columns():
            append(structure.features(each))
    return structure

"""From tables to a graph, step by step in DuckDB; a sink takes each part of it, into memory or into files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from clnr.errors import DataError, one_line, option
from clnr.support.humanize import plural
from clnr.support.progress import NowAndThen
from clnr.tables.argument_checks import node_kinds
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.node_columns import class_warnings, digest_unused, register_classes
from clnr.tables.columns.notations import check_one_class
from clnr.tables.columns.structural import StructuralFeatures
from clnr.tables.edges.edge_list import ENDS, merge_rows
from clnr.tables.ingest_report import MUCH_SHARE, IngestReport, unused_numbers
from clnr.tables.io.feature_matrix import MatrixEncoder
from clnr.tables.io.source import Table
from clnr.tables.io.sql import Connection, run
from clnr.tables.io.table_files import is_query
from clnr.tables.load import Loaded, load_tables, name_of
from clnr.tables.roles.described_columns import type_warnings, unread_warnings
from clnr.tables.roles.parent_columns import about_parents, parent_columns
from clnr.tables.roles.roles import Roles
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_graph import TableInfo
from clnr.tables.table_kinds import OpenTables, open_tables


class GraphSink(ABC):
    """What takes the parts of a graph from DuckDB, in the order of these methods."""

    def check_tables(self, tables: OpenTables) -> None:  # noqa: B027
        """Raise if tables that are not read yet will be too large."""

    def check_loaded(self, loaded: Loaded) -> None:  # noqa: B027
        """Raise if tables that are in DuckDB are too large."""

    @abstractmethod
    def take_ids(self, as_integers: bool) -> None:
        """The node ids of the SQL relation ``ids``, in the order of its ``i``."""

    @abstractmethod
    def take_edges(self, loaded: Loaded) -> list[str]:
        """The edges of the SQL table ``distinct_edges``, if there are any; returns notes for the user."""

    @abstractmethod
    def take_labels(self, node_table: Table | None, label: str | None) -> None:
        """The classes of nodes by a column of the node table, if there are both; see ``label_sql``."""

    @abstractmethod
    def take_features(self, loaded: Loaded, encoder: FeatureEncoder) -> list[str]:
        """Features of the rows of the node table, by an encoder of its columns; returns notes for the user."""

    @abstractmethod
    def take_structure(self, structure: StructuralFeatures | None) -> StructuralFeatures:
        """Features from the edges that were taken; returns how they are scaled, which is fitted if it is not given."""

    @abstractmethod
    def take_columns(self, loaded: Loaded) -> Any:
        """The columns of the node table, if there is one; returns some rows of them, or all, as an Arrow table."""

    @abstractmethod
    def finish(self) -> int:
        """Complete the graph, when nothing is asked of DuckDB any more; returns the number of nodes without an edge."""


def build_graph(db: Connection, arguments: TableArguments, sink: GraphSink) -> TableInfo:
    """Read tables, and hand all parts of their graph to a sink; returns how they were read."""
    tables = open_tables(db, arguments)
    sink.check_tables(tables)
    loaded = load_tables(db, tables, arguments)
    sink.check_loaded(loaded)
    base, node_table, label = arguments.base, loaded.node_table, loaded.roles.label
    if node_table is not None and label is not None:
        check_one_class(db, node_table, label)
    new_rows = _number_nodes(db, None if base is None else base.graph.num_nodes, node_table is None)
    sink.take_ids(loaded.as_integers)
    report = merge_rows(db, loaded.edges_title, loaded.merging) if loaded.edges else IngestReport()
    fitted = arguments.feature_encoder is None and base is None
    if node_table is not None and not report.dangling_hint and report.dangling > MUCH_SHARE * report.rows:
        report = replace(report, dangling_hint=f"to keep them, leave out {option('nodes')}, or add their nodes to it")
    edge_notes = sink.take_edges(loaded)
    encoder, encoder_notes = _encoder_for(db, loaded, arguments)
    if base is not None and encoder.encodes and loaded.from_edges and new_rows:
        cure = f"a node table ({option('nodes')}) would give them"
        encoder_notes.append(f"without values: {plural(new_rows, 'new node')}; {cure}")
    classes = () if base is None else base.class_names
    if node_table is not None and label is not None:
        known, classes = classes, register_classes(db, node_table, label, classes)
        encoder_notes += class_warnings(db, node_table, label, classes, known)
    sink.take_labels(node_table, label)
    if encoder.encodes:
        encoder_notes += sink.take_features(loaded, encoder)
    else:
        encoder = replace(encoder, structure=sink.take_structure(encoder.structure))
    unused_digest = ""
    if node_table is not None:
        features = {each.column for each in encoder.column_encoders}
        unused_digest = digest_unused(db, node_table, loaded.roles.id, loaded.as_integers, features)
    names = name_of(loaded, sink.take_columns(loaded), arguments)
    columns = loaded.describe(db, names, encoder)
    for i, info in enumerate(columns):
        if fitted and info.role == "feature and name":
            alone = f"{info.note} ({option('types', {info.column: 'id'})} makes it a name alone)"
            columns = (*columns[:i], info._replace(note=alone), *columns[i + 1 :])
    if fitted and (unused := unused_numbers(columns)):
        some = one_line(", ".join(f"'{column}'" for column in unused), 200)
        cure = f"to use one as the weight: {option('weight', unused[0] if len(unused) == 1 else 'COLUMN')}"
        edge_notes.append(f"{loaded.edges_title}: numeric columns not used: {some}; {cure}")
    if base is not None:
        given = {info.table for info in columns}
        columns += tuple(info for info in base.ingest_report.columns if info.table not in given)
    report = replace(
        report,
        isolated=sink.finish(),
        remarks=(*loaded.remarks, *edge_notes, *report.remarks, *encoder_notes),
        directed=arguments.is_directed,
        names=names,
        columns=columns,
        edge_types=report.edge_types if base is None else base.ingest_report.edge_types,
        node_kinds=node_kinds(arguments) if base is None else base.ingest_report.node_kinds,
        hint=loaded.hint,
        unused_digest=unused_digest,
    )
    return TableInfo(encoder, classes, report)


def _number_nodes(db: Connection, earlier: int | None, by_edges: bool) -> int:
    """Make the SQL relation ``ids`` of all node ids and their indices; those of ``base`` come first.

    Without a node table, ``row_ids`` are made of the edges' sources and targets. Returns the number of ``row_ids``.
    """
    new = "" if earlier is None else "ANTI JOIN base_ids USING (id)"
    if by_edges:
        numbered = f"SELECT id, row_number() OVER (ORDER BY id) - 1 AS i FROM {ENDS} {new}"
        run(db, f"CREATE TEMP TABLE row_ids AS {numbered}", "edges")
    if earlier is None:
        run(db, "CREATE TEMP VIEW ids AS SELECT id, i FROM row_ids", "nodes")
    else:
        fresh = f"SELECT id, {earlier} + row_number() OVER (ORDER BY row_ids.i) - 1 AS i FROM row_ids {new}"
        run(db, f"CREATE TEMP TABLE ids AS SELECT id, i FROM base_ids UNION ALL {fresh}", "nodes")
    ((rows,),) = run(db, "SELECT count(*) FROM row_ids", "nodes")
    return int(rows)


def _encoder_for(db: Connection, loaded: Loaded, arguments: TableArguments) -> tuple[FeatureEncoder, list[str]]:
    """The feature encoder, fitted or an earlier one, and notes; if it encodes nothing, features come from structure."""
    node_table, base = loaded.node_table, arguments.base
    given = arguments.feature_encoder if base is None else base.feature_encoder
    if given is not None:
        notes = _check_encoder(given, loaded, arguments)
        of_kinds = [(kind.table, given.of_kind(kind.name)) for kind in loaded.node_kinds]
        for table, encoder in of_kinds or ([] if node_table is None else [(node_table, given)]):
            notes += unread_warnings(db, table, encoder.column_encoders, is_earlier=True)
        return given, notes
    if node_table is None:
        return FeatureEncoder(), []
    remarks: list[str] = []

    def fit(table: Table, roles: Roles) -> FeatureEncoder:
        time = NowAndThen()

        def say(done: int) -> None:
            if arguments.progress is not None and time.due():
                arguments.progress(f"{table.name}: {done:,} of {plural(len(roles.features), 'column')} are read")

        of_user = roles.features if arguments.features is not None else roles.types
        parents = parent_columns(db, table, roles.id, [name for name in roles.features if name not in of_user])
        if parents:
            ends = {column for _, of in loaded.edges for column in (of.source, of.target)}
            are_edges = is_query(arguments.edges) or not ends.isdisjoint(parents)
            remarks.append(about_parents(table, parents, are_edges))
        encoder = FeatureEncoder.fit(db, table, roles.features, {**dict.fromkeys(parents, "id"), **roles.types}, say)
        remarks.extend(type_warnings(db, table, encoder.column_encoders, roles.types))
        return encoder

    if node_table.outputs is not None:
        encoder = FeatureEncoder.join({kind.name: fit(kind.table, kind.roles) for kind in loaded.node_kinds})
    else:
        encoder = fit(node_table, loaded.roles)
    if loaded.matrix is not None:
        encoder = replace(encoder, matrix=MatrixEncoder.fit(loaded.matrix))
    if encoder.encodes or loaded.from_edges:
        return encoder, remarks
    why = "; ".join(f"{column}: {reason}" for column, reason in encoder.dropped.items())
    why = why or "it has only ids, labels and times"
    return encoder, [
        f"{node_table.name}: none of its columns can be a feature, so features come from the structure of the graph: {why}"
    ]


def _check_encoder(given: FeatureEncoder, loaded: Loaded, arguments: TableArguments) -> list[str]:
    """Raise unless an earlier encoder can encode these tables; notes about what they lack."""
    node_table, matrix, base = loaded.node_table, loaded.matrix, arguments.base
    if base is not None and given.encodes and given.width != base.graph.num_features:
        width = base.graph.num_features
        raise DataError(f"the earlier graph has {width:,} features a node, but its feature encoder makes {given.width:,}")
    if loaded.from_edges and base is None and given.encodes:
        cure = f"pass one ({option('nodes')})"
        raise DataError(f"the earlier model or feature_encoder needs the features of a node table: {cure}")
    if matrix is not None:
        if given.matrix is None:
            raise DataError(f"{matrix.name}: the model was fitted without a feature matrix; leave it out")
        if (width := matrix.shape[1]) != given.matrix.width:
            raise DataError(f"{matrix.name}: it has {width:,} columns, but that of the model has {given.matrix.width:,}")
    if node_table is not None and not loaded.from_edges and given.matrix is not None and matrix is None:
        return [f"{node_table.name}: the feature matrix of these nodes is missing; it counts as 0"]
    return []

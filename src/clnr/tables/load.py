"""Tables loaded into DuckDB: edges with their weights, nodes with their ids, and which column holds what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.support.humanize import one_line
from clnr.tables.column_info import ColumnInfo
from clnr.tables.columns import all_integers, find_column, flat_columns, load_nodes
from clnr.tables.edge_list import load_edges
from clnr.tables.edge_weighting import EdgeTimes, balance_kinds, fade_edges, keep_until
from clnr.tables.feature_encoder import FeatureEncoder
from clnr.tables.feature_matrix import FeatureMatrix
from clnr.tables.node_names import guess_name
from clnr.tables.roles import Roles, describe_edges, describe_nodes, find_roles
from clnr.tables.source import Table, describe
from clnr.tables.sql import run
from clnr.tables.table_arguments import TableArguments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class Loaded(NamedTuple):
    """Tables that are in DuckDB: ``edges`` by ``load_edges``, and ``node_table`` and ``row_ids`` by ``load_nodes``.

    Attributes:
        edge_table: Where edges came from; None if there are none.
        node_table: The stored table of nodes; None if there is none.
        matrix: The matrix of features, if there is one.
        roles: Which column holds what.
        names: The column of node names that the user chose, if any.
        as_integers: Whether ids are integers; else they are text.
        edge_types: What the weights of each kind of edges were multiplied by.
        remarks: Notes for the user, a line each.
    """

    edge_table: Table | None
    node_table: Table | None
    matrix: FeatureMatrix | None
    roles: Roles
    names: str | None
    as_integers: bool
    edge_types: dict[str, float]
    remarks: list[str]

    def describe(self, db: DuckDBPyConnection, names: str | None, encoder: FeatureEncoder) -> tuple[ColumnInfo, ...]:
        """How each column was read, given the column of names and the feature encoder."""
        infos = [] if self.edge_table is None else describe_edges(db, self.edge_table, self.roles, self.as_integers)
        if self.node_table is not None:
            infos += describe_nodes(db, self.node_table, self.roles, self.as_integers, names, encoder)
        if self.matrix is not None and encoder.matrix is not None:
            kind = "sparse matrix" if encoder.matrix.sparse else "dense matrix"
            infos.append(ColumnInfo("matrix", self.matrix.name, "feature", kind, encoder.matrix.summary, encoder.matrix.width))
        return tuple(infos)


def load_tables(
    db: DuckDBPyConnection, edge_table: Table | None, node_table: Table | None, arguments: TableArguments
) -> Loaded:
    """Load the tables of edges and nodes into DuckDB, their columns found."""
    read = ((edge_table, "an edge"), (node_table, "a node"))
    remarks = [_no_header(table, role) for table, role in read if table and table.no_header and arguments.header is None]
    roles = find_roles(edge_table, node_table, arguments)
    name_column = _name_column(node_table, roles.id, arguments)
    matrix = None if arguments.feature_matrix is None else FeatureMatrix.open(arguments.feature_matrix)
    if matrix is not None and node_table is None:
        if arguments.base is not None:
            raise DataError(f"{matrix.name}: its rows are those of a node table, and there is none; give one (--nodes)")
        node_table, roles = _numbered_nodes(db, matrix.shape[0]), roles._replace(id=_NUMBER)
    edge_types: dict[str, float] = {}
    earlier = None if arguments.base is None else arguments.base.graph.node_ids
    as_integers = (
        (earlier is None or earlier.dtype.kind in "iu")
        and (edge_table is None or all_integers(db, edge_table, roles.source, roles.target))
        and (node_table is None or all_integers(db, node_table, roles.id))
    )
    if edge_table is not None:
        times = None if roles.edge_time is None else EdgeTimes.of(db, edge_table, roles.edge_time)
        load_edges(db, edge_table, roles, as_integers, times)
        edge_types = _weigh(db, edge_table, roles, times, arguments, remarks)
    if node_table is not None:
        node_table = load_nodes(db, node_table, roles.id, as_integers)
    loaded = Loaded(edge_table, node_table, matrix, roles, name_column, as_integers, edge_types, remarks)
    if matrix is not None:
        _check_matrix(db, matrix, loaded)
    return loaded


def _weigh(
    db: DuckDBPyConnection,
    edge_table: Table,
    roles: Roles,
    times: EdgeTimes | None,
    arguments: TableArguments,
    remarks: list[str],
) -> dict[str, float]:
    """Leave out edges after ``until``, let the others fade, and balance kinds of edges; what kinds were multiplied by."""
    if times is not None and arguments.until is not None:
        remarks += keep_until(db, edge_table, times, arguments.until)
    if times is not None and arguments.half_life is not None:
        fade_edges(db, edge_table, times, arguments.half_life, arguments.until)
    if roles.edge_type is None:
        return {}
    return balance_kinds(db, edge_table, {} if arguments.base is None else arguments.base.ingest_report.edge_types)


_NUMBER = "row of the matrix"


def _numbered_nodes(db: DuckDBPyConnection, count: int) -> Table:
    """The nodes 0, 1, 2 ... of a feature matrix without a node table."""
    import pyarrow as pa

    db.register("numbered_nodes", pa.table({_NUMBER: np.arange(count)}))
    return describe(db, "the feature matrix", "numbered_nodes")


def _check_matrix(db: DuckDBPyConnection, matrix: FeatureMatrix, loaded: Loaded) -> None:
    """Raise unless the rows of a feature matrix are those of nodes."""
    assert loaded.node_table is not None
    rows = matrix.shape[0]
    ((count,),) = run(db, "SELECT count(*) FROM row_ids", loaded.node_table.name)
    if count != rows:
        sizes = f"it has {rows:,} rows, and {loaded.node_table.name} has {count:,}"
        raise DataError(f"{matrix.name}: {sizes}; row i of the one must be that of row i of the other")
    if loaded.roles.id == _NUMBER and loaded.edge_table is not None:
        for column in "st":
            for (end,) in run(db, f"SELECT {column} FROM edges ANTI JOIN row_ids ON {column} = id LIMIT 1", "edges"):
                raise DataError(
                    f"{matrix.name}: without a node table its rows are the nodes 0 to {rows - 1:,}, and an edge has node "
                    f"'{one_line(str(end), 80)}'; give a node table (--nodes) whose rows are in the order of the matrix"
                )


def name_of(loaded: Loaded, columns: Any, arguments: TableArguments) -> str | None:
    """The column of node names: the one that the user chose, that of ``base``, or a guess by some rows of all columns."""
    if arguments.names is not None or arguments.base is not None or loaded.node_table is None:
        return loaded.names
    return guess_name(columns, (loaded.roles.id, loaded.roles.label, loaded.roles.time, *loaded.roles.ignored))


def _name_column(node_table: Table | None, key: str, arguments: TableArguments) -> str | None:
    """The column of names that the user chose, else that of ``base``; the id column means none."""
    if arguments.names is None:
        return None if arguments.base is None else arguments.base.ingest_report.names
    if node_table is None:
        raise DataError(f"column '{arguments.names}' for names must be in the node table, and there is none")
    column = find_column(replace(node_table, columns=flat_columns(node_table)), arguments.names, (), "names")
    return None if column == key else column


def _no_header(table: Table, role: str) -> str:
    return f"{table.name}: its first line is read as {role}; if it has the names of columns, say --header (header=True)"

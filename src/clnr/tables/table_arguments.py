"""The arguments of ``read_tables``, checked in one place for all that read tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clnr.errors import DataError, UnknownName
from clnr.support.arguments import check_type
from clnr.tables.columns import IDS, LABELS, SOURCES, TARGETS
from clnr.tables.csv_header import KnownNames
from clnr.tables.feature_encoder import FeatureEncoder
from clnr.tables.infer import KINDS
from clnr.tables.query import query_table
from clnr.tables.source import Table, open_table
from clnr.tables.table_graph import TableGraph

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXTS = (
    *("edges_query", "nodes_query", "source", "target", "weight", "edge_type", "edge_time", "until"),
    *("id", "label", "time", "names", "name"),
)


@dataclass(frozen=True)
class TableArguments:
    """What ``read_tables`` is given, and means the same in ``ingest``; see there."""

    edges: Any = None
    nodes: Any = None
    edges_query: str | None = None
    nodes_query: str | None = None
    feature_matrix: Any = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    edge_type: str | None = None
    edge_time: str | None = None
    until: str | None = None
    half_life: float | None = None
    id: str | None = None
    label: str | None = None
    time: str | None = None
    names: str | None = None
    features: Iterable[str] | None = None
    ignore: Iterable[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    header: bool | None = None
    edges_header: bool | None = None
    nodes_header: bool | None = None
    directed: bool | None = None
    feature_encoder: FeatureEncoder | None = None
    base: TableGraph | None = None
    allow_missing_columns: bool = False
    allow_disjoint: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        for argument in _TEXTS:
            check_type(argument, getattr(self, argument), str | None, "text", DataError)
        for argument in ("directed", "header", "edges_header", "nodes_header", "allow_missing_columns", "allow_disjoint"):
            check_type(argument, getattr(self, argument), bool | None, "True or False", DataError)
        check_type("feature_encoder", self.feature_encoder, FeatureEncoder | None, "a FeatureEncoder", DataError)
        check_type("base", self.base, TableGraph | None, "a result of read_tables", DataError)
        for argument in ("features", "ignore"):
            if getattr(self, argument) is not None:
                object.__setattr__(self, argument, _names(argument, getattr(self, argument)))
        check_type("types", self.types, Mapping, "kinds by the names of columns", DataError)
        for column, kind in self.types.items():
            check_type("each column of types", column, str, "text", DataError)
            if kind not in KINDS:
                raise UnknownName(f"type for column '{column}'", str(kind), KINDS)
        self._check_times()
        self._check_tables()

    def _check_times(self) -> None:
        check_type("half_life", self.half_life, int | float | None, "a number", DataError)
        if self.edge_time is not None and self.edge_time == self.weight:
            raise DataError(f"column '{self.weight}' cannot be both time and weight of the edges: leave out --weight (weight)")
        for option, value in (("until", self.until), ("half_life", self.half_life)):
            if value is not None and self.edge_time is None:
                raise DataError(f"{option} needs the column of the edges' times: edge_time (--edge-time)")
        if self.half_life is not None and not 0 < self.half_life < math.inf:
            raise DataError(f"half_life must be above 0 (--half-life), not {self.half_life}")
        if self.base is not None:
            if self.half_life is not None and self.until is None:
                raise DataError("the age of edges that extend an earlier graph is as of a day: give it as until (--until)")
            if bool(self.base.ingest_report.edge_types) != (self.edge_type is not None) and not self._no_edges:
                has = "has" if self.base.ingest_report.edge_types else "does not have"
                raise DataError(
                    f"the earlier graph {has} edges of several kinds, and new ones must be alike: edge_type (--edge-type)"
                )

    @property
    def _no_edges(self) -> bool:
        return self.edges is None and self.edges_query is None

    def _check_tables(self) -> None:
        for role, given, query in (("edges", self.edges, self.edges_query), ("nodes", self.nodes, self.nodes_query)):
            if given is not None and query is not None:
                raise DataError(f"{role} and {role}_query are one table; leave out one of them")
        base, encoder = self.base, self.feature_encoder
        no_nodes = self.nodes is None and self.nodes_query is None
        if self._no_edges and (base is None or no_nodes):
            raise DataError(
                "there is nothing to read: give a table of edges, or one of nodes that extend an earlier graph (base)"
            )
        if base is not None and encoder is not None:
            raise DataError("an earlier graph is extended by its own feature encoder; leave out either feature_encoder or base")
        if base is not None and base.feature_encoder is None:
            raise DataError("the earlier graph did not come from tables, so it has no feature encoder for the nodes of a table")
        if base is not None and self.directed not in (None, self.is_directed):
            kind = "directed" if self.is_directed else "undirected"
            raise DataError(f"the earlier graph is {kind}, so directed={self.directed} cannot extend it")
        if (base is not None or encoder is not None) and (self.features is not None or self.types):
            which = "types (--as)" if self.types else "features (--features)"
            raise DataError(f"columns are read as by the earlier feature encoder: leave out {which}")

    @property
    def is_directed(self) -> bool:
        """Whether edges are directed: as in ``base``, if there is one."""
        if self.base is not None:
            return self.base.ingest_report.directed or self.base.graph.directed
        return bool(self.directed)

    @property
    def graph_name(self) -> str:
        return self.name or ("graph" if self.base is None else self.base.graph.name)

    def open_tables(self, db: DuckDBPyConnection) -> tuple[Table | None, Table | None]:
        """The tables of edges and of nodes, of which nothing is read yet; None for one that is not given."""
        of_edges = (self.source, self.target, self.weight, self.edge_type, self.edge_time, *self.ignore)
        of_nodes = (self.id, self.label, self.time, self.names, *(self.features or ()), *self.types, *self.ignore)
        edge_names = KnownNames(tuple(filter(None, of_edges)), (SOURCES, TARGETS))
        # Those of edges show that a table of edges was given for one of nodes.
        node_names = KnownNames(tuple(filter(None, of_nodes)), (IDS,), (*LABELS, SOURCES[0], TARGETS[0]))
        return (
            self._open(db, "edges", self.edges, self.edges_query, edge_names),
            self._open(db, "nodes", self.nodes, self.nodes_query, node_names),
        )

    def _open(self, db: DuckDBPyConnection, role: str, given: Any, query: str | None, known: KnownNames) -> Table | None:
        if query is not None:
            return query_table(db, query, role)
        return None if given is None else open_table(db, given, role, known, self.header_of(role))

    def header_of(self, role: str) -> bool | None:
        """What the user said of the first line of the table of edges or nodes: of it, or of both."""
        own: bool | None = getattr(self, f"{role}_header")
        return self.header if own is None else own


def _names(argument: str, given: Any) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (None,)
    if not all(isinstance(each, str) for each in names):
        raise DataError(f"{argument} must be a list of names of columns, not a value of type {type(given).__name__}")
    return names

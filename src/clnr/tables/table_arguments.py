"""The arguments of ``read_tables``, checked in one place for all that read tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from clnr.errors import DataError, UnknownName
from clnr.support.arguments import check_choice, check_type
from clnr.tables.columns.columns import LABELS, SOURCES, TARGETS, end_names, id_names
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.infer import KINDS
from clnr.tables.io.csv_header import KnownNames
from clnr.tables.io.query import query_table
from clnr.tables.io.source import Table, open_table
from clnr.tables.kinds.table_kinds import NamedEdges, NamedNodes, check_node_kinds, edges_by_kind, nodes_by_kind
from clnr.tables.table_graph import TableGraph

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TEXTS = (
    *("edges_query", "nodes_query", "source", "target", "edge_type", "until"),
    *("id", "label", "time", "names", "name"),
)

NEGATIVE_WEIGHTS = ("refuse", "drop", "kind")
"""What can be done with negative weights."""


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
    weight: str | Iterable[str] | None = None
    negative_weights: str | None = None
    edge_type: str | None = None
    edge_time: str | Iterable[str] | None = None
    until: str | None = None
    half_life: float | None = None
    drop_empty: bool = False
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
        for argument in ("weight", "edge_time"):
            if getattr(self, argument) is not None and not isinstance(getattr(self, argument), str):
                object.__setattr__(self, argument, _names(argument, getattr(self, argument)) or None)
        flags = ("directed", "drop_empty", "header", "edges_header", "nodes_header", "allow_missing_columns", "allow_disjoint")
        for argument in flags:
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
        if self.negative_weights is not None:
            check_choice("negative_weights", self.negative_weights, NEGATIVE_WEIGHTS)
        self._check_kinds()
        self._check_times()
        self._check_tables()

    def _check_times(self) -> None:
        check_type("half_life", self.half_life, int | float | None, "a number", DataError)
        if both := [each for each in self.edge_times if each in self.weights]:
            raise DataError(f"column '{both[0]}' cannot be both time and weight of the edges: leave out --weight (weight)")
        for option, value in (("until", self.until), ("half_life", self.half_life)):
            if value is not None and self.edge_time is None:
                raise DataError(f"{option} needs the column of the edges' times: edge_time (--edge-time)")
        if self.half_life is not None and not 0 < self.half_life < math.inf:
            raise DataError(f"half_life must be above 0 (--half-life), not {self.half_life}")
        if self.base is not None:
            if self.half_life is not None and self.until is None:
                raise DataError("the age of edges that extend an earlier graph is as of a day: give it as until (--until)")
            if bool(self.base.ingest_report.edge_types) != self.has_edge_kinds and not self._no_edges:
                has = "has" if self.base.ingest_report.edge_types else "does not have"
                raise DataError(
                    f"the earlier graph {has} edges of several kinds, and new ones must be alike: edge_type (--edge-type), or "
                    "tables by the names of their kinds (--edges NAME=FILE)"
                )

    @property
    def weights(self) -> tuple[str, ...]:
        """The columns of weights that are named: each holds for the tables of edges that have it."""
        return (self.weight,) if isinstance(self.weight, str) else tuple(self.weight or ())

    @property
    def edge_times(self) -> tuple[str, ...]:
        """The columns of edge times that are named; likewise."""
        return (self.edge_time,) if isinstance(self.edge_time, str) else tuple(self.edge_time or ())

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

    def _check_kinds(self) -> None:
        if isinstance(self.edges, Mapping) and self.edge_type is not None:
            raise DataError("edges are of the kinds that their tables are called: leave out edge_type (--edge-type)")
        if self.feature_matrix is not None and self.node_kinds:
            raise DataError("a feature matrix has the rows of one node table; leave it out where nodes are of several kinds")
        base, encoder = self.base, self.feature_encoder
        known: tuple[str, ...] | None = None
        if base is not None:
            known = base.ingest_report.node_kinds
        elif encoder is not None and encoder.encodes:
            known = encoder.node_kinds
        edges = edges_by_kind(self.edges) if self.edges_query is None else (NamedEdges(self.edges_query),)
        nodes = nodes_by_kind(self.nodes) if self.nodes_query is None else (NamedNodes(self.nodes_query),)
        check_node_kinds(edges, nodes, known, extends=base is not None)

    @property
    def has_edge_kinds(self) -> bool:
        """Whether edges are of several kinds: by a column, by the names of their tables, or by the signs of their weights."""
        return self.edge_type is not None or isinstance(self.edges, Mapping) or self.with_negative_weights == "kind"

    @property
    def with_negative_weights(self) -> str:
        """What is done with negative weights: as the user says, else as in ``base``, else they are refused."""
        if self.negative_weights is not None:
            return self.negative_weights
        return NEGATIVE_WEIGHTS[0] if self.base is None else self.base.ingest_report.negative_weights

    @property
    def node_kinds(self) -> tuple[str, ...]:
        """The kinds of nodes: those that have a table, else those that edges join; none if nodes have no kinds."""
        named = tuple(each.kind for each in nodes_by_kind(self.nodes) if each.kind is not None)
        joined = {kind for each in edges_by_kind(self.edges) for kind in each.ends or ()}
        return named or tuple(sorted(joined))

    @property
    def is_directed(self) -> bool:
        """Whether edges are directed: as in ``base``, if there is one."""
        if self.base is not None:
            return self.base.ingest_report.directed or self.base.graph.directed
        return bool(self.directed)

    @property
    def graph_name(self) -> str:
        return self.name or ("graph" if self.base is None else self.base.graph.name)

    def open_tables(self, db: DuckDBPyConnection) -> OpenTables:
        """The tables of edges and of nodes, of which nothing is read yet."""
        edges, nodes = edges_by_kind(self.edges), nodes_by_kind(self.nodes)
        if self.edges_query is not None:
            edges = (NamedEdges(query_table(db, self.edges_query, "edges")),)
        else:
            edges = tuple(each._replace(table=self._open_edges(db, each)) for each in edges)
        if self.nodes_query is not None:
            nodes = (NamedNodes(query_table(db, self.nodes_query, "nodes")),)
        else:
            nodes = tuple(each._replace(table=self._open_nodes(db, each)) for each in nodes)
        return OpenTables(edges, nodes)

    def _open_edges(self, db: DuckDBPyConnection, edges: NamedEdges) -> Table:
        named = (self.source, self.target, *self.weights, *self.edge_times, self.edge_type, *self.ignore)
        known = KnownNames(tuple(filter(None, named)), end_names(edges.ends))
        return open_table(db, edges.table, "edges", known, self.header_of("edges"), edges.kind or "")

    def _open_nodes(self, db: DuckDBPyConnection, nodes: NamedNodes) -> Table:
        named = [self.id, self.label, self.time, self.names, *(self.features or ()), *self.types, *self.ignore]
        if nodes.kind is not None:
            named += [name.removeprefix(f"{nodes.kind}.") for name in named if name is not None]
        # Those of edges show that a table of edges was given for one of nodes.
        known = KnownNames(tuple(filter(None, named)), (id_names(nodes.kind),), (*LABELS, SOURCES[0], TARGETS[0]))
        return open_table(db, nodes.table, "nodes", known, self.header_of("nodes"), nodes.kind or "")

    def header_of(self, role: str) -> bool | None:
        """What the user said of the first line of the table of edges or nodes: of it, or of both."""
        own: bool | None = getattr(self, f"{role}_header")
        return self.header if own is None else own


class OpenTables(NamedTuple):
    """The tables that were given, opened: each ``table`` is a ``Table``."""

    edges: tuple[NamedEdges, ...]
    nodes: tuple[NamedNodes, ...]

    @property
    def has_kinds(self) -> bool:
        """Whether some of them have names."""
        return any(each.kind is not None for each in self.edges) or any(each.kind is not None for each in self.nodes)

    @property
    def has_node_kinds(self) -> bool:
        return any(each.ends is not None for each in self.edges) or any(each.kind is not None for each in self.nodes)


def _names(argument: str, given: Any) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else (None,)
    if not all(isinstance(each, str) for each in names):
        raise DataError(f"{argument} must be a list of names of columns, not a value of type {type(given).__name__}")
    return names

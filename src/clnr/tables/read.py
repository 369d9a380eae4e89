"""Two tables as a graph: ids kept, edges looked up, counted and cleaned, and what was found along the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.humanize import plural
from clnr.tables import merge
from clnr.tables.columns import IDS, LABELS, SOURCES, TARGETS, all_whole, columns_of, found, labels_of, load_nodes, plain
from clnr.tables.edge_list import EdgeList, IngestReport, ends_of, linked, load_ends
from clnr.tables.feature_encoder import FeatureEncoder
from clnr.tables.infer import doubts
from clnr.tables.node_names import guess_name, names_at
from clnr.tables.query import query_table
from clnr.tables.source import Table, table
from clnr.tables.sql import connect, fetched, run
from clnr.tables.structural import StructuralFeatures, shape

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class TableGraph(NamedTuple):
    """A graph from tables, and what is needed to read more of the kind.

    Attributes:
        graph: The graph.
        feature_encoder: How its features were made; None where they were not read from tables.
        classes: Names of the labels 0, 1, 2 ...
        findings: What was found in the tables.
        columns: An Arrow table of the columns of nodes as they were read, a row a node; None where there was no table of nodes.
    """

    graph: Graph
    feature_encoder: FeatureEncoder | None
    classes: tuple[str, ...] = ()
    ingest_report: IngestReport = IngestReport()
    columns: Any = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of all labels; one without a name is called by its number."""
        return tuple(self.class_name(label) for label in range(max(len(self.classes), self.graph.num_classes)))

    def class_name(self, label: int) -> str:
        """The name of one."""
        return self.classes[label] if label < len(self.classes) else str(label)

    def names_of(self, nodes: Array) -> list[str]:
        """What some nodes are called, "" where one has no name beside its id; empty where no column holds names."""
        if self.ingest_report.names is None:
            return []
        ids = [str(each) for each in self.graph.node_ids[nodes].tolist()]
        return names_at(self.columns, self.ingest_report.names, nodes, ids)


_Opened = Callable[["DuckDBPyConnection", Sequence[str]], Table]


class _Asked(NamedTuple):
    """What the user asked for."""

    ends: tuple[str | None, str | None, str | None]
    about: tuple[str | None, str | None, str | None]
    names: str | None
    directed: bool
    feature_encoder: FeatureEncoder | None
    onto: TableGraph | None
    name: str


def read_tables(
    edges: Any = None,
    nodes: Any = None,
    *,
    edges_query: str | None = None,
    nodes_query: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,  # noqa: A002
    label: str | None = None,
    time: str | None = None,
    names: str | None = None,
    directed: bool | None = None,
    feature_encoder: FeatureEncoder | None = None,
    onto: TableGraph | None = None,
    memory: str | None = None,
    name: str | None = None,
) -> TableGraph:
    """A graph from a table of edges and one of nodes, or an earlier one with what these tables add to it.

    >>> import pyarrow
    >>> from clnr import read_tables
    >>> edges = pyarrow.table({"source": ["ann", "bob"], "target": ["bob", "cy"]})
    >>> nodes = pyarrow.table({"id": ["ann", "bob", "cy"], "age": [30, 40, 50], "vip": [True, False, False]})
    >>> read = read_tables(edges, nodes)
    >>> read.graph
    Graph(graph: 3 nodes, 4 edges, 2 dense features)
    >>> read.graph.ids.tolist()
    ['ann', 'bob', 'cy']

    Args:
        edges: A CSV, Parquet or JSON file, a glob of them, or a data frame; None where a query stands for it, or where only
            nodes are added to an earlier graph.
        nodes: Likewise, one row a node; without it, features come from the structure of the graph.
        edges_query: Instead of ``edges``, one SELECT as DuckDB has it. It only reads, any file of this machine that the user
            may read and none of another: ``SELECT a AS source, b AS target FROM 'trades.parquet' WHERE ...``.
        nodes_query: Instead of ``nodes``, likewise.
        source: The column of edges' sources; found by common names if not given, else the first.
        target: That of their targets; likewise, else the second.
        weight: That of their weights, if they have any; likewise.
        id: The column of nodes' ids; found by common names if not given, else the first.
        label: The column of classes, if there is one; never a feature.
        time: A column of times, never a feature.
        names: The column that says what nodes are called, for reports; it is a feature or not as it would be anyway. If not
            given, the first that ends in ``name`` or ``title`` with short texts of which most differ; naming the column of ids
            means none.
        directed: Whether an edge holds one way only; if not given, as in the earlier graph, else no.
        feature_encoder: How features were encoded before, to encode these alike; made anew if not given.
        onto: What was read earlier and is to be added to: its nodes come first, in their order, and its feature
            encoder is used; rows of nodes that it has replace the earlier ones, and so do weights of its edges.
        memory: A bound on what DuckDB takes while reading, as ``4 GB``. The features, the edges and the columns of nodes come
            on top of it, and about half a gigabyte for rows that are being encoded.
        name: What to call the graph.
    """
    texts = {"source": source, "target": target, "weight": weight, "id": id, "label": label, "time": time}
    texts |= {"edges_query": edges_query, "nodes_query": nodes_query, "memory": memory, "name": name, "names": names}
    for argument, given in texts.items():
        _check_kind(argument, given, str, "a text")
    _check_kind("directed", directed, bool, "True or False")
    _check_kind("feature_encoder", feature_encoder, FeatureEncoder, "a FeatureEncoder")
    _check_kind("onto", onto, TableGraph, "what read_tables returned")
    tables = _given(edges, edges_query, "edges"), _given(nodes, nodes_query, "nodes")
    if tables[0] is None and (onto is None or tables[1] is None):
        raise DataError("there is nothing to read: name a table of edges, or one of nodes that come onto an earlier graph")
    if onto is not None and feature_encoder is not None:
        raise DataError("nodes that come onto an earlier graph are encoded as it was; leave out either feature_encoder or onto")
    if onto is not None and onto.feature_encoder is None:
        raise DataError("the earlier graph did not come from tables, so that nodes of a table cannot be encoded as its were")
    was = onto is not None and (onto.ingest_report.directed or onto.graph.directed)
    if onto is not None and directed is not None and directed != was:
        kind = "directed" if was else "undirected"
        raise DataError(f"the earlier graph is {kind}, so directed={directed} cannot come onto it")
    about = onto.graph.name if onto is not None else "graph"
    asked = _Asked(
        (source, target, weight),
        (id, label, time),
        names,
        was if directed is None else directed,
        feature_encoder,
        onto,
        name or about,
    )
    base = connect(memory)
    try:
        return _read(base, *tables, asked)
    finally:
        base.close()


def _check_kind(argument: str, given: Any, kind: type, said: str) -> None:
    if not (given is None or isinstance(given, kind)):
        raise DataError(f"{argument} is to be {said}, not a {type(given).__name__}")


def _given(plain: Any, query: str | None, what: str) -> _Opened | None:
    """How to open a table that the user gave, by one way or the other."""
    if plain is not None and query is not None:
        raise DataError(f"{what} and {what}_query stand for one table; leave out one of them")
    if query is not None:
        return lambda base, names: query_table(base, query, what)
    return None if plain is None else lambda base, names: table(base, plain, what, names)


def _read(base: DuckDBPyConnection, edges: _Opened | None, nodes: _Opened | None, asked: _Asked) -> TableGraph:
    links = None if edges is None else edges(base, _names(SOURCES, TARGETS, asked.ends))
    people = None if nodes is None else nodes(base, _names(IDS, LABELS, (*asked.about, asked.names)))
    remarks = [_headless(given, what) for given, what in ((links, "an edge"), (people, "a node")) if given and given.headless]
    a, b, w = ("", "", None) if links is None else ends_of(links, *asked.ends)
    key = "" if people is None else found(people, asked.about[0], IDS, "id", asked.about[1:]) or next(iter(people.columns))
    called = _called(people, key, asked)
    earlier = None if asked.onto is None else asked.onto.graph.node_ids
    whole = (
        (earlier is None or earlier.dtype.kind in "iu")
        and (links is None or all_whole(base, links, a, b))
        and (people is None or all_whole(base, people, key))
    )
    ends, ingest_report = EdgeList.none(), IngestReport()
    if links is not None:
        load_ends(base, links, a, b, w, whole)
    if people is not None:
        people = load_nodes(base, people, key, whole)
    ids, place = _ids(base, earlier, whole, people is None)
    if links is not None:
        ends, ingest_report = linked(base, links, w, asked.directed)
    if asked.onto is not None:
        ends, more = merge.joined_ends(asked.onto.graph, ends, asked.directed)
        remarks += more
    made, more = _nodes(base, people, key, ids, place, ends, asked)
    graph = Graph.from_edges(
        *ends[:2],
        made.features,
        weight=ends.weight,
        undirected=not asked.directed,
        labels=made.labels,
        ids=ids,
        split=None if asked.onto is None else asked.onto.graph.split,
        name=asked.name,
    )
    alone = (np.diff(graph.incoming.indptr) == 0) & (np.diff(graph.outgoing.indptr) == 0)
    told = (*remarks, *ingest_report.remarks, *more)
    if asked.names is None and asked.onto is None and people is not None:
        called = guess_name(made.columns, (key, found(people, asked.about[1], LABELS, "label"), asked.about[2]))
    ingest_report = replace(ingest_report, isolated=int(alone.sum()), remarks=told, directed=asked.directed, names=called)
    return TableGraph(graph, made.feature_encoder, made.classes, ingest_report, made.columns)


def _called(people: Table | None, key: str, asked: _Asked) -> str | None:
    """The column of names that was asked for, else the earlier graph's; that of ids is none."""
    if asked.names is None:
        return None if asked.onto is None else asked.onto.ingest_report.names
    if people is None:
        raise DataError(f"column '{asked.names}' for names is to be one of the table of nodes, and there is none")
    column = found(replace(people, columns=plain(people)), asked.names, (), "names")
    return None if column == key else column


def _names(*names: Sequence[str | None]) -> list[str]:
    return [name for some in names for name in some if name]


def _headless(given: Table, what: str) -> str:
    said = "no names were seen in the first line, which is taken for"
    return f"{given.name}: {said} {what}; name the columns if it is a header"


def _ids(base: DuckDBPyConnection, earlier: Array | None, whole: bool, by_edges: bool) -> tuple[Array, Array]:
    """All ids by their places, and the place of each row of ``mine``, which is made of edges' ends if nothing else names nodes.

    The earlier ones come first, in their order.
    """
    import pyarrow as pa

    before = 0 if earlier is None else len(earlier)
    new = ""
    if earlier is not None:
        old = pa.array(earlier, pa.int64()) if whole else pa.array([str(each) for each in earlier.tolist()], pa.string())
        base.register("given_earlier", pa.table({"id": old, "i": pa.array(np.arange(before))}))
        new = "ANTI JOIN given_earlier USING (id)"
    if by_edges:
        ends = "SELECT s AS id FROM ends UNION SELECT t FROM ends"
        run(base, f"CREATE TEMP TABLE mine AS SELECT id, row_number() OVER (ORDER BY id) AS i FROM ({ends}) {new}", "edges")
    fresh = f"SELECT id, {before} + row_number() OVER (ORDER BY mine.i) - 1 AS i FROM mine {new}"
    every = fresh if earlier is None else f"SELECT id, i FROM given_earlier UNION ALL {fresh}"
    run(base, f"CREATE TEMP TABLE ids AS {every}", "nodes")
    place = fetched(base, "SELECT ids.i AS i FROM mine JOIN ids USING (id) ORDER BY mine.i", "nodes")["i"]
    return fetched(base, "SELECT id FROM ids ORDER BY i", "nodes")["id"], place


class _Nodes(NamedTuple):
    """All that is known of nodes, a row each."""

    features: Any
    feature_encoder: FeatureEncoder
    labels: Array | None
    classes: tuple[str, ...]
    columns: Any


def _nodes(
    base: DuckDBPyConnection, people: Table | None, key: str, ids: Array, place: Array, ends: EdgeList, asked: _Asked
) -> tuple[_Nodes, list[str]]:
    onto = asked.onto
    labels, columns, label = None, None, None
    classes = () if onto is None else onto.class_names
    if people is not None:
        label = found(people, asked.about[1], LABELS, "label", (key, asked.about[2]))
        columns = columns_of(base, people)
        if label is not None:
            labels, classes = labels_of(base, people, label, classes)
    feature_encoder, remarks = _encoding(base, people, (key, label), asked)
    features: Any
    if feature_encoder.parts:
        features = feature_encoder.unknown(len(place)) if people is None else feature_encoder.transform(base, people)
    else:
        seen = shape(ends.source, ends.target, len(ids))
        structure = feature_encoder.structure or StructuralFeatures.fit(seen)
        feature_encoder, features = replace(feature_encoder, structure=structure), structure.features(seen, ids)
    if onto is not None:
        before = onto.graph.num_nodes
        take = merge.taken(before, place, len(ids))
        labels = merge.joined_labels(onto.graph.labels, labels, before, take)
        columns = merge.joined_columns(onto.columns, columns, before, take)
        if feature_encoder.parts:
            features = merge.joined_features(onto.graph.features, features, take)
            if people is None and len(place):
                remarks.append(f"known from edges alone, with all values missing: {plural(len(place), 'new node')}")
    return _Nodes(features, feature_encoder, labels, classes, columns), remarks


def _encoding(
    base: DuckDBPyConnection, people: Table | None, left_out: tuple[str | None, ...], asked: _Asked
) -> tuple[FeatureEncoder, list[str]]:
    """How features are made; one without parts means that they come from structure."""
    given = asked.feature_encoder if asked.onto is None else asked.onto.feature_encoder
    if given is not None:
        if asked.onto is not None and given.parts and given.width != asked.onto.graph.num_features:
            width = asked.onto.graph.num_features
            raise DataError(f"the earlier graph has {width:,} features a node, but its feature encoder makes {given.width:,}")
        if people is None and asked.onto is None and given.parts:
            raise DataError(
                "the feature_encoder is of a table of nodes, and there is none; give one, or leave the feature_encoder out"
            )
        gone = [] if people is None else [part.column for part in given.parts if part.column not in people.columns]
        told = [f"'{column}'" for column in gone]
        return given, [f"{people.name}: it lacks {', '.join(told)}; all values are missing"] if people and gone else []
    if people is None:
        return FeatureEncoder(), []
    unused = (*left_out, found(people, asked.about[2], (), "time"))
    made = FeatureEncoder.fit(base, people, [column for column in people.columns if column not in unused])
    if made.parts:
        return made, doubts(base, people, made.parts)
    why = "; ".join(f"{column}: {reason}" for column, reason in made.dropped.items())
    why = why or "there are none beside ids, labels and times"
    return made, [f"{people.name}: no column of it can be a feature, so features come from the structure of the graph: {why}"]

"""A graph from tables in memory: a new one, or an earlier one extended, whose nodes come first, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError, one_line, option
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.support.humanize import gigabytes, plural
from clnr.tables.columns.feature_encoder import FeatureEncoder
from clnr.tables.columns.node_columns import column_sql, label_sql
from clnr.tables.columns.structural import StructuralFeatures, degree_features
from clnr.tables.columns.telling_columns import telling_columns
from clnr.tables.edges.edge_list import EdgeList, read_edge_list, spelling_hint
from clnr.tables.io.source import Table, measure_rows
from clnr.tables.io.sql import Connection, fetch_columns, fetch_numpy, run
from clnr.tables.load import Loaded
from clnr.tables.table_arguments import TableArguments
from clnr.tables.table_driver import GraphSink

# Bytes of an edge when it was read, and while DuckDB merges it or the graph is made of it, when DuckDB is closed; of a value
# of a node as feature; and of rows that are being encoded. DuckDB may hold some copies of the nodes while it sorts them.
_EDGE_READ_BYTES, _EDGE_BYTES, _FEATURE_BYTES, _CHUNK_BYTES = 24, 120, 8, 64_000_000
_NODE_COPIES = 2
# What was freed is not all given back at once.
_MARGIN_FACTOR = 1.25


class MemorySink(GraphSink):
    """Takes a graph into memory; when it is complete, ``graph`` and ``columns`` are those of a ``TableGraph``.

    Of the memory that was unused before reading, DuckDB may use ``duckdb_bytes``; either is None if it is not known.
    """

    graph: Graph
    columns: Any = None
    _features: Any
    _labels: Array | None = None

    def __init__(self, db: Connection, arguments: TableArguments, unused_bytes: int | None, duckdb_bytes: int | None):
        self._db, self._arguments, self._base = db, arguments, arguments.base
        self._unused_bytes, self._duckdb_bytes = unused_bytes, duckdb_bytes

    def check_loaded(self, loaded: Loaded) -> None:
        if self._unused_bytes is None:
            return
        edges = run(self._db, "SELECT count(*) FROM edges", "edges")[0][0] if loaded.edges else 0
        kept = 0
        if (table := loaded.node_table) is not None:
            nodes, row_bytes = measure_rows(self._db, table)
            kept = nodes * (row_bytes + _FEATURE_BYTES * len(loaded.roles.features))
        stored = _NODE_COPIES * kept + _EDGE_BYTES * edges
        in_duckdb = stored if self._duckdb_bytes is None else min(stored, self._duckdb_bytes)
        at_once = min(_CHUNK_BYTES, kept) + _EDGE_READ_BYTES * edges + in_duckdb
        needed = int(_MARGIN_FACTOR * (kept + max(at_once, _EDGE_BYTES * edges)))
        if needed > self._unused_bytes:
            free = gigabytes(self._unused_bytes)
            raise DataError(
                f"about {gigabytes(needed)} of memory are needed to read these tables, and {free} are free; clnr ingest "
                "writes them as a graph folder in bounded memory, from 1 GB on, and clnr embed --graph trains on it"
            )

    def take_ids(self, as_integers: bool) -> None:
        index_sql = "SELECT ids.i AS i FROM row_ids JOIN ids USING (id) ORDER BY row_ids.i"
        # The node of each row of the node table; without one, those that only edges have.
        self._index = fetch_numpy(self._db, index_sql, "nodes")["i"]
        self._ids = fetch_numpy(self._db, "SELECT id FROM ids ORDER BY i", "nodes")["id"]
        # For each node, its row among those of ``base`` followed by the new ones, which replace them.
        self._rows = np.arange(len(self._ids))
        self._rows[self._index] = self._old_nodes + np.arange(len(self._index))

    @property
    def _old_nodes(self) -> int:
        return 0 if self._base is None else self._base.graph.num_nodes

    def take_edges(self, loaded: Loaded) -> list[str]:
        base, title = self._base, loaded.edges_title
        none = np.empty(0, np.int64)
        self._edges = read_edge_list(self._db, title, loaded.merging) if loaded.edges else EdgeList(none, none, None)
        if base is None:
            return []
        remarks = []
        reached = any((nodes < self._old_nodes).any() for nodes in (self._edges.source, self._edges.target, self._index))
        if loaded.edges and not reached:
            one = one_line(str(base.graph.node_ids[0]), 80)
            found = f"{title}: none of its edges leads to a node of the earlier graph, such as '{one}'"
            remarks.append(f"warning: {found}; to embed the tables as a graph of their own: {option('transform')}")
        if loaded.edges and not loaded.as_integers:
            new = "row_ids ANTI JOIN base_ids USING (id)"
            hint = spelling_hint(self._db, title, new, "base_ids", "the earlier graph")
            remarks += [f"{title}: {hint}"] if hint else []
        self._edges, notes = _merge_edges(base.graph, self._edges, self._arguments.is_directed)
        return [*remarks, *notes]

    def take_labels(self, node_table: Table | None, label: str | None) -> None:
        old = None if self._base is None else self._base.graph.labels
        if node_table is not None and label is not None:
            new = fetch_numpy(self._db, label_sql(node_table, label), node_table.name)["c"].astype(np.int64)
            self._labels = np.concatenate([np.full(self._old_nodes, -1) if old is None else old, new])[self._rows]
        elif old is not None:
            self._labels = np.concatenate([old, np.full(len(self._ids) - self._old_nodes, -1)])

    def take_features(self, loaded: Loaded, encoder: FeatureEncoder) -> list[str]:
        if loaded.node_table is None:
            new = encoder.unknown(len(self._index))
        else:
            new = encoder.transform(self._db, loaded.node_table, loaded.matrix)
        if self._base is None:
            self._features = new
            columns = [] if self._labels is None else telling_columns(encoder, new, self._labels)
            known = f"predicts the label '{loaded.roles.label}' of nearly every node; if it was filled in after the label"
            return [f"warning: '{each}' alone {known}: {option('ignore', [each])}" for each in columns]
        if sp.issparse(old := self._base.graph.features) or sp.issparse(new):
            self._features = sp.vstack([sp.csr_array(old), sp.csr_array(new)], format="csr")[self._rows]
        else:
            self._features = np.concatenate([old, new])[self._rows]
        return []

    def take_structure(self, structure: StructuralFeatures | None) -> StructuralFeatures:
        source, target, weight = self._edges
        there = slice(None) if weight is None else weight > 0
        degrees = degree_features(source[there], target[there], len(self._ids))
        structure = structure or StructuralFeatures.fit(degrees)
        self._features = structure.features(degrees)
        return structure

    def take_columns(self, loaded: Loaded) -> Any:
        if (table := loaded.node_table) is not None:
            import pyarrow as pa

            kept = column_sql(table, loaded.roles.id, loaded.as_integers)
            columns = fetch_columns(self._db, list(kept.values()), "node_table ORDER BY i", table.name)
            self.columns = pa.Table.from_arrays(columns, list(kept))
        if self._base is not None:
            self.columns = _merge_columns(self._base.columns, self.columns, self._old_nodes, self._rows)
        return self.columns

    def finish(self) -> int:
        # The graph takes the place of DuckDB in memory.
        self._db.close()
        self.graph = graph = Graph.from_edges(
            *self._edges[:2],
            self._features,
            weight=self._edges.weight,
            undirected=not self._arguments.is_directed,
            labels=self._labels,
            ids=self._ids,
            split=None if self._base is None else self._base.graph.split,
            name=self._arguments.graph_name,
        )
        return int(((np.diff(graph.incoming.indptr) == 0) & (np.diff(graph.outgoing.indptr) == 0)).sum())


# -- an earlier graph, extended ---------------------------------------------------------------------------------------------


def _merge_edges(graph: Graph, new: EdgeList, directed: bool) -> tuple[EdgeList, list[str]]:
    """The edges of both, and notes about them; an edge of both has the new weight."""
    source, target, weight = graph.edges()
    kept = source != target if directed else source < target
    old = EdgeList(source[kept], target[kept], None if weight is None else weight[kept])
    count = max(graph.num_nodes, *(int(end.max(initial=-1)) + 1 for end in new[:2]))
    before, after = (ends.source * count + ends.target for ends in (old, new))
    left = ~np.isin(before, after, assume_unique=True)
    source, target = np.concatenate([old.source[left], new.source]), np.concatenate([old.target[left], new.target])
    both = f"{plural(int((~left).sum()), 'edge')} that the earlier graph has"
    if old.weight is None and new.weight is None:
        return EdgeList(source, target, None), [] if left.all() else [f"merged: {both}; each edge counts once"]
    first, added = (np.ones(len(ends.source), np.float32) if ends.weight is None else ends.weight for ends in (old, new))
    if new.weight is None:
        _, i, j = np.intersect1d(before, after, assume_unique=True, return_indices=True)
        added[j] = first[i]
    unweighted = [what for what, ends in (("earlier", old), ("new", new)) if ends.weight is None and len(ends.source)]
    notes = [f"warning: the {what} edges have no weights, unlike the others, and count as 1" for what in unweighted]
    notes += [] if left.all() else [f"merged: {both}; {'the new' if new.weight is not None else 'the earlier'} weight counts"]
    return EdgeList(source, target, np.concatenate([first[left], added])), notes


def _merge_columns(old: Any, new: Any, before: int, rows: Array) -> Any:
    """The rows of two Arrow tables, by column names; the rows of None are empty."""
    import pyarrow as pa

    if old is None and new is None:
        return None
    if old is not None and old.num_rows != before:
        raise DataError(f"the earlier graph has {before:,} nodes, but its table of columns {old.num_rows:,} rows")
    below = len(rows) - before if new is None else new.num_rows
    parts = ((old, before), (new, below))
    names = dict.fromkeys(name for part, _ in parts if part is not None for name in part.column_names)
    moved = not np.array_equal(rows, np.arange(len(rows)))
    columns = {}
    for name in names:
        pair = [
            part.column(name) if part is not None and name in part.column_names else pa.chunked_array([pa.nulls(length)])
            for part, length in parts
        ]
        try:
            column = _concatenate(pair)
            if moved and pa.types.is_string(column.type) and column.nbytes > 1 << 30:
                column = column.cast(pa.large_string())
            columns[name] = column.take(pa.array(rows)) if moved else column
        except (pa.ArrowException, ValueError, OverflowError):
            kind = " and ".join(dict.fromkeys(str(part.type) for part in pair))
            raise DataError(f"'{name}' of the earlier nodes and of the new ones cannot be combined: {kind}") from None
    return pa.table(columns)


def _concatenate(pair: list[Any]) -> Any:
    """One column below the other: of their common type, or as text if they have two."""
    import pyarrow as pa

    kinds = {column.type for column in pair if not pa.types.is_null(column.type)}
    kind, chunks = kinds.pop() if len(kinds) == 1 else pa.string(), []
    for column in pair:
        try:
            chunks += column.cast(kind).chunks
        except pa.ArrowException:
            chunks.append(pa.array([None if each is None else str(each) for each in column.to_pylist()], kind))
    return pa.chunked_array(chunks, kind)

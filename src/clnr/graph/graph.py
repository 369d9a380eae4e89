"""Graph: immutable, with its edges in CSR form by source and by target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph import interop
from clnr.graph.arrays import (
    Matrix,
    as_adjacency,
    as_array,
    as_features,
    as_float32,
    as_ids,
    as_labels,
    as_node_indices,
    check_features,
    check_per_node,
)
from clnr.graph.csr import CSR, Array, Damaged, check_ends, check_form, draw_neighbours, take_rows, to_csr, transpose
from clnr.graph.digest import digest_in_memory
from clnr.graph.node_table import NodeTable
from clnr.graph.table_info import TableInfo
from clnr.support.arguments import check_type
from clnr.support.storage import errors_name

if TYPE_CHECKING:
    from pathlib import Path

    import networkx
    from torch_geometric.data import Data


_CHECKED_NODES = 1 << 16
_NO_TABLES = TableInfo()


class Split(NamedTuple):
    """Node indices of the training, validation and test sets."""

    train: Array
    validation: Array
    test: Array


class Stored(NamedTuple):
    """The folder that a graph is in, its digest, and its number of classes, as they were written."""

    path: Path
    digest: str
    classes: int


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Nodes with features, and directed edges between them, stored by source and by target.

    An undirected graph holds each edge twice. Build one with ``from_edges``, ``from_scipy``, ``from_pyg`` or
    ``from_networkx``; the constructor itself takes arrays of the final form and refuses others. ``open_graph`` maps the arrays
    of a folder, which are checked as they are read; features may be float16 there.

    Attributes:
        features: One row per node, float32, dense or CSR.
        incoming: Edges by target: the in-neighbours of each node.
        outgoing: The same edges by source: the out-neighbours of each node.
        labels: Class per node, -1 where unknown; or None.
        ids: The user's id of each node, an array, or ``StoredIds``; or None for 0, 1, 2 ...
        split: The published split, where there is one.
        name: What to call it in reports; it affects nothing else.
        dataset: The data set of the catalogue that it is, which has its own recipes; None for a user's graph.
        info: How tables became the graph; nothing of one that did not come from tables.
        columns: The columns of the node table, a row for each node, read when they are asked for; None without one.
        stored: Where its arrays are mapped from; None in memory.
    """

    features: Matrix
    incoming: CSR
    outgoing: CSR
    labels: Array | None = None
    ids: Any = None
    split: Split | None = None
    name: str = "graph"
    dataset: str | None = None
    info: TableInfo = _NO_TABLES
    columns: NodeTable | None = None
    stored: Stored | None = None

    @classmethod
    def from_edges(
        cls,
        source: Any,
        target: Any,
        features: Any,
        *,
        weight: Any = None,
        undirected: bool = False,
        labels: Any = None,
        ids: Any = None,
        split: Split | None = None,
        name: str = "graph",
    ) -> Graph:
        """A graph from a list of edges; duplicates become one edge with the sum of their weights; weight 0 is no edge.

        >>> from clnr import Graph
        >>> Graph.from_edges([0, 1, 1], [1, 2, 2], [[1, 0], [0, 1], [1, 1]], undirected=True, name="path")
        Graph(path: 3 nodes, 4 edges, 2 dense features)

        Args:
            source: Node index per edge.
            target: Node index per edge.
            features: Matrix with one row per node, dense or SciPy sparse.
            weight: Number per edge, finite and not negative; None for an unweighted graph.
            undirected: Add the reverse of every edge.
            labels: Class index per node, 0, 1, 2 ..., and -1 where unknown.
            ids: Id per node: distinct and hashable.
            split: Published split: three lists of node indices.
            name: What to call it in reports.
        """
        matrix = as_features(features)
        count = matrix.shape[0]
        source, target = as_node_indices(source, count, "an edge's source"), as_node_indices(target, count, "an edge's target")
        if source.shape != target.shape:
            raise DataError(f"edges have {len(source)} sources but {len(target)} targets")
        if weight is not None:
            weight = as_float32(weight, "edge weights").reshape(-1)
            if weight.shape != source.shape:
                raise DataError(f"there are {len(source)} edges but {len(weight)} weights")
            if len(wrong := np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))):
                edge = f"the edge from node {source[wrong[0]]} to {target[wrong[0]]} (from 0) has weight {weight[wrong[0]]}"
                raise DataError(f"{edge}; edge weights must be finite and not negative")
        check_type("undirected", undirected, bool | np.bool_, "True or False", DataError)
        if undirected:
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
            weight = None if weight is None else np.concatenate([weight, weight])
        incoming = to_csr(target, source, weight, count)
        return cls(
            features=matrix,
            incoming=incoming,
            outgoing=transpose(incoming),
            labels=None if labels is None else as_labels(labels, count),
            ids=None if ids is None else as_ids(ids, count),
            split=None if split is None else _split(split, count),
            name=name,
        )

    def __post_init__(self) -> None:
        if self.stored is None:
            check_features(self.features)
        elif self.sparse:
            check_ends(self.features.indptr, len(self.features.indices), self._damaged_of("features"))
        count = self.num_nodes
        for what, edges in (("incoming", self.incoming), ("outgoing", self.outgoing)):
            check_form(check_type(what, edges, CSR, "a CSR of edges", DataError), count, self._damaged_of(what))
        if self.stored is not None:
            return
        for edges in (self.incoming, self.outgoing):
            self.take_edges(np.arange(count), edges)
        if self.num_edges != len(self.outgoing.indices):
            raise DataError(f"there are {self.num_edges} incoming edges but {len(self.outgoing.indices)} outgoing")
        of_nodes = (self.labels, self.ids, *(self.split or ()))
        for array in of_nodes:
            check_type("each of labels, ids and the parts of a split", array, np.ndarray | None, "an array", DataError)
        if self.labels is not None:
            as_labels(self.labels, count)
        if self.ids is not None:
            check_per_node(self.ids, count, "ids")
        for part in self.split or ():
            as_node_indices(part, count, "a member of the split")
        check_type("a graph's name", self.name, str, "text", DataError)
        of_features = _rows(self.features) if self.sparse else (self.features,)
        for array in (*of_features, *of_nodes, *self.incoming, *self.outgoing):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        form = "sparse" if self.sparse else "dense"
        classes = f", {self.num_classes} classes" if self.labels is not None else ""
        return (
            f"Graph({self.name}: {self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} {form} features{classes})"
        )

    @property
    def num_nodes(self) -> int:
        return int(self.features.shape[0])

    @property
    def node_ids(self) -> Any:
        """The user's id of each node, or 0, 1, 2 ... where there are none."""
        return np.arange(self.num_nodes) if self.ids is None else self.ids

    @property
    def num_edges(self) -> int:
        """Directed edges; an undirected edge counts twice."""
        return len(self.incoming.indices)

    @property
    def degrees(self) -> Array:
        """The number of edges of each node, in either direction."""
        return np.diff(self.incoming.indptr) + (np.diff(self.outgoing.indptr) if self.directed else 0)

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        if self.stored is not None and self.labels is not None:
            return self.stored.classes
        return 0 if self.labels is None or not len(self.labels) else int(self.labels.max()) + 1

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of all labels; a label without a name is called by its number."""
        return tuple(map(self.info.class_name, range(max(len(self.info.classes), self.num_classes))))

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.features)

    @cached_property
    def directed(self) -> bool:
        """Whether some edge lacks its reverse, or has another weight than it."""
        if self.stored is not None or self.incoming is self.outgoing:
            return self.incoming is not self.outgoing
        pairs = zip(self.incoming, self.outgoing, strict=True)
        return not all(np.array_equal(a, b) for a, b in pairs if a is not None and b is not None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that makes it another graph for its user, ids included; but not its own name."""
        return digest_in_memory(self) if self.stored is None else self.stored.digest

    def named(self, name: str) -> Graph:
        """The same graph under another name."""
        return replace(self, name=name)

    def without_labels(self) -> Graph:
        """The same graph without labels and split."""
        return replace(self, labels=None, split=None)

    def row_normalize(self) -> Graph:
        """The same graph with each row of features scaled to sum 1; a row of zeros stays."""
        x = self.features
        total = np.asarray(x.sum(1, dtype=np.float64)).reshape(-1, 1)
        scale = 1 / np.where(total == 0, 1, total)
        scaled = sp.csr_array(x.multiply(scale), dtype=np.float32) if sp.issparse(x) else (x * scale).astype(np.float32)
        return replace(self, features=scaled)

    def edges(self) -> tuple[Array, Array, Array | None]:
        """Source, target and weight of each edge, ordered by target, then source."""
        target = np.repeat(np.arange(self.num_nodes), np.diff(self.incoming.indptr))
        return self.incoming.indices.astype(np.int64), target, self.incoming.weight

    # -- some nodes ----------------------------------------------------------------------------------------------------

    @property
    def edges_by_end(self) -> tuple[CSR, ...]:
        """Edges by target and, of a directed graph, by source."""
        return (self.incoming, self.outgoing)[: 1 + self.directed]

    def take_edges(self, nodes: Array, way: CSR) -> CSR:
        """Edges of some nodes by one end, in their order, checked."""
        name = "incoming" if way is self.incoming else "outgoing"
        return take_rows(way, nodes, self.num_nodes, self._damaged_of(name))

    def take_sparse_features(self, nodes: Array) -> sp.csr_array:
        """Features of some nodes, which are sparse, in their order, checked."""
        taken = take_rows(_rows(self.features), nodes, self.num_features, self._damaged_of("features"), are_edges=False)
        return sp.csr_array((taken.weight, taken.indices, taken.indptr), shape=(len(nodes), self.num_features))

    def damaged(self, array: str, what: str) -> DataError:
        """The error of an array, as a folder calls it, whose content cannot be right."""
        if self.stored is None:
            return DataError(f"{array}: {what}")
        return DataError(f"{self.stored.path / array}.bin: it is damaged, or was changed: {what}")

    def _damaged_of(self, rows: str) -> Damaged:
        """The same of edges by one end, or of sparse features, for a part of a ``CSR``."""
        values = "values" if rows == "features" else "weight"
        return lambda part, what: self.damaged(f"{rows}.{values if part == 'weight' else part}", what)

    def check_labels(self, labels: Array, first: int = 0) -> Array:
        """The labels of nodes from the ``first`` on, each of which must be that of a class, or -1."""
        wrong = (labels < -1) | (labels >= self.num_classes)
        if wrong.any():
            at, classes = np.argmax(wrong), f"{self.num_classes:,} classes, and -1 for none"
            raise self.damaged("labels.values", f"row {first + at} has label {labels[at]}, and there are {classes}")
        return labels

    def neighbours(self, node: int) -> set[int]:
        """The nodes with an edge to or from a node."""
        return {each for way in self.edges_by_end for each in self.take_edges(np.array([node]), way).indices.tolist()}

    def draw_neighbours(self, nodes: Array, most: int, left_out: Array | None = None) -> tuple[Array, Array]:
        """At most ``most`` neighbours of some nodes, in either direction: see ``csr.draw_neighbours``."""
        with self.naming_rows():
            return draw_neighbours(self.edges_by_end, nodes, most, left_out)

    @contextmanager
    def naming_rows(self) -> Iterator[None]:
        """In this block, an edge that is not where it should be, or leads nowhere, is an error that names its row."""
        try:
            yield
        except IndexError:
            for way in self.edges_by_end:
                for start in range(0, self.num_nodes, _CHECKED_NODES):
                    self.take_edges(np.arange(start, min(start + _CHECKED_NODES, self.num_nodes)), way)
            raise

    def in_memory(self) -> Graph:
        """The same graph with all of its arrays in memory, checked as any graph's."""
        if self.stored is None:
            return self
        labels = None if self.labels is None else self.check_labels(np.array(self.labels))
        ids, columns = np.array(self.ids[:]), self.columns and NodeTable(self.columns.table(), self.num_nodes)
        with errors_name(self.stored.path):
            # SciPy has no sparse matrices of float16.
            x = self.take_sparse_features(np.arange(self.num_nodes)) if self.sparse else as_features(self.features)
            return replace(self, features=x, labels=labels, ids=ids, columns=columns, stored=None)

    # -- SciPy, PyG, networkx ------------------------------------------------------------------------------------------

    @classmethod
    def from_scipy(cls, adjacency: Any, features: Any, **more: Any) -> Graph:
        """From a SciPy matrix whose entry ``[i, j]`` is an edge from ``i`` to ``j``; values other than 1 become weights.

        Args:
            adjacency: A sparse matrix (CSR, CSC or COO; of torch CSR or COO), or a dense array.
            features: As in ``from_edges``.
            more: Other arguments of ``from_edges``, by name.
        """
        a = as_adjacency(adjacency)
        shape = features.shape if hasattr(features, "shape") else as_array(features, "features").shape
        if len(shape) == 2 and shape[0] != a.shape[0]:
            raise DataError(f"the adjacency matrix is {a.shape[0]} x {a.shape[1]}, but there are {shape[0]} rows of features")
        plain = bool((a.data == 1).all())
        return cls.from_edges(a.row, a.col, features, weight=None if plain else a.data, **more)

    def to_scipy(self) -> sp.csr_array:
        """The adjacency matrix, entry ``[i, j]`` an edge from ``i`` to ``j``."""
        everyone = np.arange(self.num_nodes)
        indptr, indices, weight = self.outgoing if self.stored is None else self.take_edges(everyone, self.outgoing)
        values = np.ones(len(indices), np.float32) if weight is None else weight
        return sp.csr_array((values.copy(), indices.copy(), indptr.copy()), shape=(self.num_nodes, self.num_nodes))

    @classmethod
    def from_pyg(cls, data: Data, name: str = "graph") -> Graph:
        """From PyG's ``Data``: ``x``, ``edge_index``, ``edge_weight``, ``y``, ``ids`` and the three masks.

        Other edge attributes, such as ``edge_attr``, are not weights: they are left out with a warning, and so are masks of
        several splits at once.
        """
        return cls.from_edges(**interop.from_pyg(data), name=name)

    to_pyg = interop.to_pyg

    @classmethod
    def from_networkx(
        cls, graph: networkx.Graph, features: str = "x", labels: str | None = None, weight: str = "weight", name: str = "graph"
    ) -> Graph:
        """From networkx: node names become ids.

        Args:
            graph: Directed or not.
            features: The node attribute that holds features.
            labels: The node attribute that holds labels, if any.
            weight: The edge attribute that holds weights; an edge without it weighs 1.
            name: What to call the graph in reports.
        """
        return cls.from_edges(**interop.from_networkx(graph, features, labels, weight), name=name)

    to_networkx = interop.to_networkx


def _rows(x: sp.csr_array) -> CSR:
    return CSR(x.indptr, x.indices, x.data)


def _split(split: Split, count: int) -> Split:
    try:
        train, validation, test = split
    except (TypeError, ValueError):
        raise DataError(f"a split is three lists of nodes: train, validation and test, not {split!r:.80}") from None
    parts = Split(*(as_node_indices(part, count, "a member of the split") for part in (train, validation, test)))
    members = np.concatenate(parts)
    if len(np.unique(members)) != len(members):
        raise DataError("a split must not hold a node twice")
    return parts

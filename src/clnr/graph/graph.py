"""Graph: the one immutable value that everything else reads."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph.csr import CSR, Array, compress, transpose
from clnr.graph.validation import (
    Matrix,
    adjacency_of,
    array_of,
    check_edges,
    check_features,
    features_of,
    ids_of,
    indices,
    labels_of,
    numbers,
    per_node,
)

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


class Split(NamedTuple):
    """Node indices to train on, to choose by, and to report."""

    train: Array
    validation: Array
    test: Array


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Nodes with features, and directed edges between them kept in both directions of reading.

    An undirected graph holds each edge twice. Build one with ``from_edges``, ``from_scipy``, ``from_pyg`` or
    ``from_networkx``; the constructor itself takes arrays that are already in form, and refuses others.

    Attributes:
        features: One row per node, float32, dense or compressed sparse rows, as it came.
        incoming: Edges by target: what each node listens to.
        outgoing: The same edges by source.
        labels: Class per node, -1 where unknown; or None.
        ids: The user's own name of each node; or None for 0, 1, 2 ...
        split: The published split, where there is one.
        name: What to call it in reports; nothing else follows from it.
        dataset: The data set of the catalogue that it is, for which recipes are shipped; None for a graph of one's own.
    """

    features: Matrix
    incoming: CSR
    outgoing: CSR
    labels: Array | None = None
    ids: Array | None = None
    split: Split | None = None
    name: str = "graph"
    dataset: str | None = None

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
        """A graph from a list of edges; duplicates become one edge, their weights added; weight 0 is no edge.

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
            ids: Name per node: distinct, of any kind that is hashable.
            split: Published split: three lists of node indices.
            name: What to call it in reports.
        """
        more = {"weight": weight, "undirected": undirected, "labels": labels, "ids": ids, "split": split, "name": name}
        return cls._of(source, target, features_of(features), **more)

    @classmethod
    def _of(
        cls,
        source: Any,
        target: Any,
        matrix: Matrix,
        *,
        weight: Any = None,
        undirected: bool = False,
        labels: Any = None,
        ids: Any = None,
        split: Split | None = None,
        name: str = "graph",
    ) -> Graph:
        """``from_edges`` with features that are in form."""
        count = matrix.shape[0]
        source, target = indices(source, count, "an edge's source"), indices(target, count, "an edge's target")
        if source.shape != target.shape:
            raise DataError(f"edges have {len(source)} sources but {len(target)} targets")
        if weight is not None:
            weight = numbers(weight, "edge weights").reshape(-1)
            if weight.shape != source.shape:
                raise DataError(f"there are {len(source)} edges but {len(weight)} weights")
            if not (np.isfinite(weight).all() and (weight >= 0).all()):
                raise DataError("edge weights must be finite and not negative")
        if not isinstance(undirected, bool | np.bool_):
            raise DataError(f"undirected must be True or False, not {undirected!r:.80}")
        if undirected:
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
            weight = None if weight is None else np.concatenate([weight, weight])
        incoming = compress(target, source, weight, count)
        return cls(
            features=matrix,
            incoming=incoming,
            outgoing=transpose(incoming),
            labels=None if labels is None else labels_of(labels, count),
            ids=None if ids is None else ids_of(ids, count),
            split=None if split is None else _split(split, count),
            name=name,
        )

    def __post_init__(self) -> None:
        check_features(self.features)
        count = self.num_nodes
        check_edges(self.incoming, count, "incoming")
        check_edges(self.outgoing, count, "outgoing")
        if self.num_edges != len(self.outgoing.indices):
            raise DataError(f"there are {self.num_edges} incoming edges but {len(self.outgoing.indices)} outgoing")
        for array in (self.labels, self.ids, *(self.split or ())):
            if not isinstance(array, np.ndarray | None):
                raise DataError(f"labels, ids and the parts of a split must be arrays, not a {type(array).__name__}")
        if self.labels is not None:
            labels_of(self.labels, count)
        if self.ids is not None:
            per_node(self.ids, count, "ids")
        for part in self.split or ():
            indices(part, count, "a member of the split")
        if not isinstance(self.name, str):
            raise DataError(f"a graph's name must be text, not {self.name!r:.80}")
        for array in (*self._content(), *self.outgoing, self.ids):
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
    def node_ids(self) -> Array:
        """The user's own name of each node, or 0, 1, 2 ... where there are none."""
        return np.arange(self.num_nodes) if self.ids is None else self.ids

    @property
    def num_edges(self) -> int:
        """Directed edges; an undirected edge counts twice."""
        return len(self.incoming.indices)

    @property
    def num_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        return 0 if self.labels is None or not len(self.labels) else int(self.labels.max()) + 1

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.features)

    @cached_property
    def directed(self) -> bool:
        """Whether some edge lacks its reverse, or differs from it in weight."""
        pairs = zip(self.incoming, self.outgoing, strict=True)
        return not all(np.array_equal(a, b) for a, b in pairs if a is not None and b is not None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content that a run depends on: features, edges, labels and split; ids and name do not count."""
        total = hashlib.sha256()
        for array in self._content():
            plain = array.astype("<i8" if array.dtype.kind == "i" else "<f4")
            total.update(f"{plain.dtype.str}{plain.shape}".encode() + plain.tobytes())
        return total.hexdigest()

    def _content(self) -> Iterable[Array]:
        x = self.features
        yield from (x.indptr, x.indices, x.data) if sp.issparse(x) else (x,)
        parts = (*self.incoming, self.labels, *(self.split or ()))
        yield from (part for part in parts if part is not None)

    def named(self, name: str) -> Graph:
        """The same graph under another name."""
        return replace(self, name=name)

    def without_labels(self) -> Graph:
        """The same graph with nothing in it that learning without labels must not see."""
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
        return self.incoming.indices, target, self.incoming.weight

    # -- SciPy, PyG, networkx ------------------------------------------------------------------------------------------

    @classmethod
    def from_scipy(cls, adjacency: Any, features: Any, **more: Any) -> Graph:
        """From a SciPy matrix whose entry ``[i, j]`` is an edge from ``i`` to ``j``; values other than 1 become weights.

        Args:
            adjacency: Of any layout; or a dense array.
            features: As ``from_edges`` takes them.
            more: What else ``from_edges`` takes by name.
        """
        a, x = adjacency_of(adjacency), features_of(features)
        if x.shape[0] != a.shape[0]:
            raise DataError(f"the adjacency matrix is {a.shape[0]} x {a.shape[1]}, but there are {x.shape[0]} rows of features")
        plain = bool((a.data == 1).all())
        return cls._of(a.row, a.col, x, weight=None if plain else a.data, **more)

    def to_scipy(self) -> sp.csr_array:
        """The adjacency matrix, entry ``[i, j]`` an edge from ``i`` to ``j``."""
        start, nodes, weight = self.outgoing
        values = np.ones(len(nodes), np.float32) if weight is None else weight
        return sp.csr_array((values.copy(), nodes.copy(), start.copy()), shape=(self.num_nodes, self.num_nodes))

    @classmethod
    def from_pyg(cls, data: Data, name: str = "graph") -> Graph:
        """From PyG's ``Data``: ``x``, ``edge_index``, ``edge_weight``, ``y``, ``ids`` and the three masks.

        Other attributes of edges, such as ``edge_attr``, are no weights: they are left out, and a warning says so; likewise
        masks of several splits at once.
        """
        if hasattr(data, "to_homogeneous"):
            raise DataError("a PyG graph must have nodes and edges of one kind; see HeteroData.to_homogeneous")
        if getattr(data, "x", None) is None or getattr(data, "edge_index", None) is None:
            raise DataError(f"a PyG graph needs both x and edge_index, which this {type(data).__name__} has not")
        given = data.to_dict()
        ends = array_of(given["edge_index"], "edge_index")
        if ends.ndim != 2 or len(ends) != 2:
            raise DataError(f"edge_index must be of shape [2, edges], not {list(ends.shape)}")
        masks = {part: array_of(given[part], part) for part in _MASKS if given.get(part) is not None}
        usable = len(masks) == len(_MASKS) and all(mask.ndim == 1 and mask.dtype == bool for mask in masks.values())
        unused = [key for key in given if key.startswith("edge_") and key not in ("edge_index", "edge_weight")]
        if unused := unused + ([] if usable else list(masks)):
            warnings.warn(f"not used of this PyG graph: {', '.join(unused)}", UserWarning, stacklevel=2)
        return cls.from_edges(
            ends[0],
            ends[1],
            given["x"],
            weight=given.get("edge_weight"),
            labels=None if given.get("y") is None else array_of(given["y"], "labels").reshape(-1),
            ids=given.get("ids"),
            split=Split(*(mask.nonzero()[0] for mask in masks.values())) if usable else None,
            name=name,
        )

    def to_pyg(self) -> Data:
        """As PyG's ``Data``; sparse features become a sparse CSR tensor."""
        import torch
        from torch_geometric.data import Data

        source, target, weight = self.edges()
        x = self.features
        if sp.issparse(x):
            start, columns = (torch.from_numpy(part.astype(np.int64)) for part in (x.indptr, x.indices))
            features = torch.sparse_csr_tensor(start, columns, torch.from_numpy(x.data.copy()), size=x.shape)
        else:
            features = torch.from_numpy(x.copy())
        data = Data(x=features, edge_index=torch.from_numpy(np.stack([source, target])))
        if weight is not None:
            data.edge_weight = torch.from_numpy(weight.copy())
        if self.labels is not None:
            data.y = torch.from_numpy(self.labels.copy())
        if self.ids is not None:
            data.ids = self.ids
        for part, nodes in zip(_MASKS, self.split or (), strict=False):
            mask = torch.zeros(self.num_nodes, dtype=torch.bool)
            mask[torch.from_numpy(nodes.copy())] = True
            data[part] = mask
        return data

    @classmethod
    def from_networkx(
        cls, graph: networkx.Graph, features: str = "x", labels: str | None = None, weight: str = "weight", name: str = "graph"
    ) -> Graph:
        """From networkx: node names become ids; ``features`` and ``labels`` name node attributes, ``weight`` an edge's."""
        if not (hasattr(graph, "nodes") and hasattr(graph, "is_directed")):
            raise DataError(f"a {type(graph).__name__} is no networkx graph")
        for what, attribute in (("features", features), ("labels", labels), ("weight", weight)):
            if not isinstance(attribute, str | None):
                raise DataError(f"{what} must be the name of an attribute, not {attribute!r:.80}")
        nodes = list(graph.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        missing = [node for node in nodes if features not in graph.nodes[node]]
        if missing:
            raise DataError(f"node {missing[0]!r:.80} has no attribute '{features}' to take features from")
        ends = [(place[a], place[b], data.get(weight)) for a, b, data in graph.edges(data=True)]
        weighted = any(w is not None for _, _, w in ends)
        # An undirected loop stands once in networkx, and must not be doubled by adding reverses.
        both = ends if graph.is_directed() else ends + [(b, a, w) for a, b, w in ends if a != b]
        ids = np.empty(len(nodes), dtype=object)
        ids[:] = nodes
        return cls.from_edges(
            [a for a, _, _ in both],
            [b for _, b, _ in both],
            [np.atleast_1d(array_of(graph.nodes[node][features], f"features of node {node!r:.80}")) for node in nodes],
            weight=[1.0 if w is None else w for _, _, w in both] if weighted else None,
            labels=None if labels is None else [graph.nodes[node].get(labels, -1) for node in nodes],
            ids=ids,
            name=name,
        )

    def to_networkx(self) -> networkx.Graph:
        """As ``networkx.Graph``, or ``DiGraph`` where directed; node attributes ``x`` and ``label``."""
        import networkx

        graph = networkx.DiGraph() if self.directed else networkx.Graph()
        names = range(self.num_nodes) if self.ids is None else list(self.ids)
        x = self.features.toarray() if sp.issparse(self.features) else self.features
        for i, name in enumerate(names):
            graph.add_node(name, x=x[i], **({} if self.labels is None else {"label": int(self.labels[i])}))
        source, target, weight = self.edges()
        for e, (i, j) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            graph.add_edge(names[i], names[j], **({} if weight is None else {"weight": float(weight[e])}))
        return graph


_MASKS = ("train_mask", "val_mask", "test_mask")


def _split(split: Split, count: int) -> Split:
    try:
        train, validation, test = split
    except (TypeError, ValueError):
        raise DataError(f"a split is three lists of nodes: train, validation and test, not {split!r:.80}") from None
    parts = Split(*(indices(part, count, "a member of the split") for part in (train, validation, test)))
    parallel_seeds = np.concatenate(parts)
    if len(np.unique(parallel_seeds)) != len(parallel_seeds):
        raise DataError("a split must not hold a node twice")
    return parts

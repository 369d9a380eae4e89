"""Conversion of graphs from and to PyTorch Geometric and networkx; neither is needed unless it is used."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from clnr.errors import DataError
from clnr.graph.arrays import as_array
from clnr.support.arguments import check_type
from clnr.support.optional import import_optional

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data

_MASK_NAMES = ("train_mask", "val_mask", "test_mask")


def from_pyg(data: Data) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a graph of PyG."""
    if hasattr(data, "to_homogeneous"):
        raise DataError("a PyG graph must have nodes and edges of one kind; see HeteroData.to_homogeneous")
    if getattr(data, "x", None) is None or getattr(data, "edge_index", None) is None:
        raise DataError(f"a PyG graph needs both x and edge_index, which this {type(data).__name__} has not")
    stored = data.to_dict()
    edge_index = as_array(stored["edge_index"], "edge_index")
    if edge_index.ndim != 2 or len(edge_index) != 2:
        raise DataError(f"edge_index must be of shape [2, edges], not {list(edge_index.shape)}")
    masks = {part: as_array(stored[part], part) for part in _MASK_NAMES if stored.get(part) is not None}
    usable = len(masks) == len(_MASK_NAMES) and all(mask.ndim == 1 and mask.dtype == bool for mask in masks.values())
    unused = [key for key in stored if key.startswith("edge_") and key not in ("edge_index", "edge_weight")]
    if unused := unused + ([] if usable else list(masks)):
        warnings.warn(f"not used of this PyG graph: {', '.join(unused)}", UserWarning, stacklevel=3)
    return {
        "source": edge_index[0],
        "target": edge_index[1],
        "features": stored["x"],
        "weight": stored.get("edge_weight"),
        "labels": None if stored.get("y") is None else as_array(stored["y"], "labels").reshape(-1),
        "ids": stored.get("ids"),
        "split": tuple(mask.nonzero()[0] for mask in masks.values()) if usable else None,
    }


def to_pyg(graph: Any) -> Data:
    """As PyG's ``Data``; sparse features become a sparse CSR tensor."""
    import torch

    pyg = import_optional("torch_geometric.data", "conversion to PyG", "pyg")
    x, (source, target, weight) = graph.features, graph.edges()
    if graph.sparse:
        indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (x.indptr, x.indices))
        with warnings.catch_warnings():  # torch announces once that sparse CSR tensors are in beta, and unchecked.
            warnings.filterwarnings("ignore", "Sparse ", UserWarning)
            features = torch.sparse_csr_tensor(indptr, indices, torch.from_numpy(x.data.copy()), size=x.shape)
    else:
        features = torch.from_numpy(x.copy())
    data = pyg.Data(x=features, edge_index=torch.from_numpy(np.stack([source, target])))
    if weight is not None:
        data.edge_weight = torch.from_numpy(weight.copy())
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    if graph.ids is not None:
        data.ids = graph.ids
    for part, nodes in zip(_MASK_NAMES, graph.split or (), strict=False):
        mask = torch.zeros(x.shape[0], dtype=torch.bool)
        mask[torch.from_numpy(nodes.copy())] = True
        data[part] = mask
    return data


def from_networkx(graph: networkx.Graph, features: str, labels: str | None, weight: str) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a graph of networkx."""
    if not (hasattr(graph, "nodes") and hasattr(graph, "is_directed")):
        raise DataError(f"a {type(graph).__name__} is not a networkx graph")
    for argument, attribute in (("features", features), ("labels", labels), ("weight", weight)):
        check_type(argument, attribute, str | None, "the name of an attribute", DataError)
    nodes = list(graph.nodes)
    index = {node: i for i, node in enumerate(nodes)}
    missing = [node for node in nodes if features not in graph.nodes[node]]
    if missing:
        raise DataError(f"node {missing[0]!r:.80} has no attribute '{features}' to take features from")
    once = [(index[a], index[b], data.get(weight)) for a, b, data in graph.edges(data=True)]
    weighted = any(w is not None for _, _, w in once)
    # networkx lists an undirected loop once, and it must not be doubled by adding reverses.
    edges = once if graph.is_directed() else once + [(b, a, w) for a, b, w in once if a != b]
    ids = np.empty(len(nodes), dtype=object)
    ids[:] = nodes
    return {
        "source": [a for a, _, _ in edges],
        "target": [b for _, b, _ in edges],
        "features": [np.atleast_1d(as_array(graph.nodes[node][features], f"features of node {node!r:.80}")) for node in nodes],
        "weight": [1.0 if w is None else w for _, _, w in edges] if weighted else None,
        "labels": None if labels is None else [graph.nodes[node].get(labels, -1) for node in nodes],
        "ids": ids,
    }


def to_networkx(graph: Any) -> networkx.Graph:
    """As ``networkx.Graph``, or ``DiGraph`` where directed; ids name its nodes, whose attributes are ``x`` and ``label``."""
    networkx = import_optional("networkx", "conversion to networkx")
    out = networkx.DiGraph() if graph.directed else networkx.Graph()
    x, names = graph.features.toarray() if graph.sparse else graph.features, graph.node_ids.tolist()
    for i, name in enumerate(names):
        out.add_node(name, x=x[i], **({} if graph.labels is None else {"label": int(graph.labels[i])}))
    source, target, weight = graph.edges()
    for e, (i, j) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        out.add_edge(names[i], names[j], **({} if weight is None else {"weight": float(weight[e])}))
    return out

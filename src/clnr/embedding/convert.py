"""Whatever a user holds a graph in, as a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from clnr.errors import DataError
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.sparse_formats import as_adjacency
from clnr.tables import FeatureEncoder, StructuralFeatures, TableGraph, read_tables
from clnr.tables.source import is_frame
from clnr.tables.structural import degree_features

_KNOWN = "a clnr.Graph, PyG's Data, a networkx graph, (SciPy adjacency, features), or data frames: edges, or (edges, nodes)"


def as_read(given: Any, feature_encoder: FeatureEncoder | None = None) -> TableGraph:
    """A graph from what a user has.

    Args:
        given: A ``Graph``, what ``read_tables`` returned, PyG's ``Data``, a networkx graph, a SciPy adjacency matrix or a pair
            of one and features, a data frame of edges, or a pair of one of edges and one of nodes. Where a networkx graph has
            no features ``x``, or a matrix comes alone, features come from structure.
        feature_encoder: How features were made before, to make these alike.
    """
    if isinstance(given, TableGraph):
        return given
    if isinstance(given, Graph):
        return TableGraph(given, None)
    pair = given if isinstance(given, tuple | list) and len(given) == 2 else (given, None)
    first, second = pair
    if sp.issparse(first):
        return _adjacency(first, second, feature_encoder)
    if is_frame(first) and (second is None or is_frame(second)):
        return read_tables(first, second, feature_encoder=feature_encoder)
    if hasattr(given, "edge_index") or hasattr(given, "to_homogeneous"):
        return TableGraph(Graph.from_pyg(given), None)
    if hasattr(given, "adj") and hasattr(given, "is_directed"):
        return _networkx(given, feature_encoder)
    raise DataError(f"a {type(given).__name__} is no graph; give {_KNOWN}")


def _adjacency(matrix: Any, features: Any, feature_encoder: FeatureEncoder | None) -> TableGraph:
    if features is not None:
        return TableGraph(Graph.from_scipy(matrix, features), None)
    entries = as_adjacency(matrix)
    bare = Graph.from_scipy(entries, np.zeros((entries.shape[0], 0), np.float32))
    return _by_structure(bare, bare.node_ids, feature_encoder)


def _networkx(graph: Any, feature_encoder: FeatureEncoder | None) -> TableGraph:
    if any("x" in about for _, about in graph.nodes(data=True)):
        return TableGraph(Graph.from_networkx(graph), None)
    bare = graph.copy()
    for _, about in bare.nodes(data=True):
        about["x"] = np.empty(0, np.float32)
    made = Graph.from_networkx(bare)
    return _by_structure(made, made.node_ids, feature_encoder)


def _by_structure(bare: Graph, ids: Array, feature_encoder: FeatureEncoder | None) -> TableGraph:
    """A graph without features, with those that its structure gives."""
    source, target, weight = bare.edges()
    columns = degree_features(source, target, bare.num_nodes)
    structure = (None if feature_encoder is None else feature_encoder.structure) or StructuralFeatures.fit(columns)
    graph = Graph.from_edges(source, target, structure.features(columns, ids), weight=weight, ids=bare.ids, name=bare.name)
    return TableGraph(graph, FeatureEncoder((), {}, structure))

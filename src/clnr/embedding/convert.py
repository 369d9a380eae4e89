"""Graphs from the types that users have: PyG, networkx, SciPy, data frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr.errors import DataError, OutOfMemory
from clnr.graph import Graph
from clnr.graph.csr import Array
from clnr.graph.graph_folder import GraphFolder
from clnr.graph.sparse_formats import as_adjacency
from clnr.support.humanize import gigabytes, one_line
from clnr.support.memory import free_memory
from clnr.tables import FeatureEncoder, StructuralFeatures, TableGraph, read_tables
from clnr.tables.folder_ingest import in_memory
from clnr.tables.source import is_frame
from clnr.tables.structural import degree_features

_SUPPORTED = (
    "a clnr.Graph, a folder of clnr ingest, PyG's Data, a networkx graph, (SciPy adjacency, features), or data frames: edges, "
    "or (edges, nodes)"
)


def as_table_graph(source: Any, feature_encoder: FeatureEncoder | None = None) -> TableGraph:
    """A graph from any supported type.

    Args:
        source: A ``Graph``, what ``read_tables`` returned, the path of a folder that ``clnr ingest`` wrote, PyG's ``Data``, a
            networkx graph, a SciPy adjacency matrix or a pair of one and features, a data frame of edges, or a pair of data
            frames: edges and nodes. A networkx graph without ``x`` and a matrix without features get structural features.
        feature_encoder: Encodes features as those of an earlier graph.
    """
    if isinstance(source, TableGraph):
        return source
    if isinstance(source, Graph):
        return TableGraph(source, None)
    if isinstance(source, str | Path):
        if not Path(source).is_dir():
            raise DataError(f"{one_line(str(source))}: there is no such folder, so it is no graph; give {_SUPPORTED}")
        return _folder(GraphFolder.open(Path(source)))
    pair = source if isinstance(source, tuple | list) and len(source) == 2 else (source, None)
    first, second = pair
    if sp.issparse(first):
        return _adjacency(first, second, feature_encoder)
    if is_frame(first) and (second is None or is_frame(second)):
        return read_tables(first, second, feature_encoder=feature_encoder)
    if hasattr(source, "edge_index") or hasattr(source, "to_homogeneous"):
        return TableGraph(Graph.from_pyg(source), None)
    if hasattr(source, "adj") and hasattr(source, "is_directed"):
        return _networkx(source, feature_encoder)
    raise DataError(f"a {type(source).__name__} is no graph; give {_SUPPORTED}")


def as_graph_folder(source: Any) -> GraphFolder | None:
    """The graph folder that a path names; None for anything else."""
    return GraphFolder.open(Path(source)) if isinstance(source, str | Path) and Path(source).is_dir() else None


def _folder(folder: GraphFolder) -> TableGraph:
    free = free_memory(torch.device("cpu"))
    if free is not None and folder.loaded_bytes > free:
        raise OutOfMemory(
            f"{folder.path}: in memory it takes about {gigabytes(folder.loaded_bytes)}, and {gigabytes(free)} are free; "
            "clnr embed --graph trains on it from its files"
        )
    return in_memory(folder)


def _adjacency(matrix: Any, features: Any, feature_encoder: FeatureEncoder | None) -> TableGraph:
    if features is not None:
        return TableGraph(Graph.from_scipy(matrix, features), None)
    entries = as_adjacency(matrix)
    bare = Graph.from_scipy(entries, np.zeros((entries.shape[0], 0), np.float32))
    return _with_structural_features(bare, bare.node_ids, feature_encoder)


def _networkx(graph: Any, feature_encoder: FeatureEncoder | None) -> TableGraph:
    if any("x" in attributes for _, attributes in graph.nodes(data=True)):
        return TableGraph(Graph.from_networkx(graph), None)
    bare = graph.copy()
    for _, attributes in bare.nodes(data=True):
        attributes["x"] = np.empty(0, np.float32)
    made = Graph.from_networkx(bare)
    return _with_structural_features(made, made.node_ids, feature_encoder)


def _with_structural_features(bare: Graph, ids: Array, feature_encoder: FeatureEncoder | None) -> TableGraph:
    """A graph without features, given structural ones."""
    source, target, weight = bare.edges()
    columns = degree_features(source, target, bare.num_nodes)
    structure = (None if feature_encoder is None else feature_encoder.structure) or StructuralFeatures.fit(columns)
    graph = Graph.from_edges(source, target, structure.features(columns, ids), weight=weight, ids=bare.ids, name=bare.name)
    return TableGraph(graph, FeatureEncoder((), {}, structure))

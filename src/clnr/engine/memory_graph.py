"""A graph in memory, on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.cpu.frontier import Frontier
from clnr.engine.cpu.kept_rows import MatrixKeptRows
from clnr.engine.sparse_matrix import SparseMatrix, to_scipy, to_sparse_matrix
from clnr.engine.view import DeviceGraph, View
from clnr.graph import Graph
from clnr.graph.csr import Array


@dataclass(frozen=True, eq=False)
class MemoryGraph(DeviceGraph):
    """A graph in memory, on a device."""

    in_files: ClassVar[bool] = False

    def frontier(self, view: View, nodes: Array) -> Frontier:
        return Frontier(view, nodes, MatrixKeptRows(view))

    def feature_rows(self, nodes: Array) -> Tensor | sp.csr_array:
        x = self.features
        return x.once("scipy", lambda: to_scipy(x))[nodes] if isinstance(x, SparseMatrix) else x[nodes]


def to_device(graph: Graph, device: torch.device, dense_above: float) -> MemoryGraph:
    """Move a graph to a device; features become dense where more than ``dense_above`` of them are not zero."""
    source, target, weight = graph.edges()
    loops = np.setdiff1d(np.arange(graph.num_nodes), source[source == target])
    values = np.ones(len(source), np.float32) if weight is None else weight
    size = (graph.num_nodes, graph.num_nodes)
    with_loops = sp.csr_array(
        (
            np.concatenate([values, np.full(len(loops), graph.loop_weight, np.float32)]),
            (np.concatenate([target, loops]), np.concatenate([source, loops])),
        ),
        shape=size,
    )
    edges = to_sparse_matrix(with_loops, device)
    x = graph.features
    if sp.issparse(x) and (dense_above < 0 or x.nnz > dense_above * x.shape[0] * x.shape[1]):
        x = x.toarray()
    features = to_sparse_matrix(x, device) if sp.issparse(x) else torch.tensor(x, device=device)
    return MemoryGraph(graph, edges, features)

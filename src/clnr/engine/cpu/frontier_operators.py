"""Sampled steps whose nodes a CPU finds: the rows of some, computed from those that their edges reach and from no others."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.cpu.frontier import Frontier
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import BlockEngine, Features, Matrix, MatrixOperators
from clnr.engine.view import View

# To add one number of a row that an edge points to takes about as long as so many steps of a dense product.
_STEPS_PER_GATHER = 8


class FrontierOperators(MatrixOperators):
    """The maps between the rows of the nodes within ``hops`` of the wanted ones and those within one hop fewer."""

    def __init__(self, view: View, engine: BlockEngine, frontier: Frontier, hops: int = 0):
        super().__init__(view, engine)
        self._blocks, self._frontier, self._hops = engine, frontier, hops

    def within(self, hops: int) -> Operators:
        return FrontierOperators(self.view, self._blocks, self._frontier, hops)

    @property
    def asked(self) -> frozenset[tuple[str, int]]:
        return frozenset(self._frontier.asked)

    def read(self, asked: Collection[tuple[str, int]]) -> None:
        self._frontier.read(asked)

    @cached_property
    def nodes(self) -> Tensor:
        return torch.from_numpy(self._frontier.nodes(self._hops)).to(self._blocks.device)

    @cached_property
    def _block(self) -> CSRArrays:
        return self._frontier.matrix(self._hops)

    @cached_property
    def _adjacency(self) -> Matrix:
        shape = len(self._block.indptr) - 1, len(self.nodes)
        return self._blocks.block_matrix(self._block, shape)

    @cached_property
    def _x(self) -> Tensor | Features:
        nodes, permutation = self.nodes, self.view.node_permutation
        nodes = nodes if permutation is None else permutation[nodes]
        device_graph, x = self.view.device_graph, self.view.device_graph.features
        if isinstance(x, Tensor):
            rows = self._blocks.all_features(device_graph, x).index_select(0, nodes)
        else:
            unpermuted = permutation is None
            read = self._frontier.features(self._hops) if unpermuted else device_graph.feature_rows(nodes.numpy(force=True))
            if sp.issparse(read):
                return self._sparse_rows(read, nodes)
            rows = self._blocks.dense_features(read.to(self._blocks.device))
        return self._without_masked_elements(rows, nodes)

    def _sparse_rows(self, rows: sp.csr_array, nodes: Tensor) -> Features:
        mask = self.view.mask
        if mask is not None and mask.elements:
            of_rows = nodes.cpu().repeat_interleave(torch.from_numpy(np.diff(rows.indptr).astype(np.int64)))
            kept = mask.of_elements(of_rows, torch.from_numpy(rows.indices.astype(np.int64))).numpy()
            rows = sp.csr_array((rows.data * kept, rows.indices, rows.indptr), shape=rows.shape)
        return self._blocks.block_features(rows, None if mask is None or mask.elements else mask)

    def _propagates_first(self, weight: Tensor) -> bool:
        inputs, outputs = weight.shape
        fewer = len(self.nodes) - len(self._frontier.nodes(self._hops - 1))
        return _STEPS_PER_GATHER * len(self._block.columns) * (inputs - outputs) <= fewer * inputs * outputs

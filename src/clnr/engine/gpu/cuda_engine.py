"""The GPU engine: fused Triton kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.blocks import BlockEngine
from clnr.engine.cpu.csr_arrays import CSRArrays
from clnr.engine.gpu.cuda_frontier import ListedFrontier, ListedOperators, lists_rows_of
from clnr.engine.gpu.kernel_matrix import KernelFeatures, KernelMatrix, structures
from clnr.engine.gpu.triton_dense import KernelDense, tf32, the_kernels
from clnr.engine.operators import Operators
from clnr.engine.sparse_engine import Features, Matrix
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import Streams
from clnr.engine.view import DeviceGraph, Mask, View

DENSE_ABOVE = 0.05
"""Share of non-zero features above which a dense first layer is faster."""
# A view of more nodes fills the GPU alone; side by side, views would only evict each other from its cache.
_NODES_THAT_FILL_GPU = 50_000


class KernelEngine(BlockEngine):
    """Triton's kernels: a view's dropped edges are removed once, by the same draws as on a CPU, for all its products."""

    name = "gpu"
    dense_above = DENSE_ABOVE
    parallel_seeds = 32

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32):
        self.device, self.dtype, self.kernels = device, dtype, the_kernels()
        self.dense = KernelDense(self.kernels)

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        with super().own_stream(), nullcontext() if self.dtype == torch.float32 else tf32():
            yield

    def prepare(self, view: View) -> None:
        super().prepare(view)
        if view.device_graph.in_blocks:
            return
        links, x = view.propagation, view.device_graph.features
        structures(links)
        _degrees(links)
        if isinstance(x, SparseMatrix):
            structures(x)

    def propagation(self, view: View) -> Matrix:
        drop, kernels, links = view.drop, self.kernels, view.propagation
        forward, transposed = structures(links)
        if drop is None:
            sums = _degrees(links)
        else:
            forward, sums = kernels.drop_entries(forward, drop)
        scale = sums.rsqrt() if view.propagation_matrix is None else None

        def build_transposed() -> Any:
            if drop is None:
                return transposed
            return kernels.drop_entries(transposed, drop.reordered(links.order), transposed=True)[0]

        return KernelMatrix(self.dense, forward, build_transposed, scale, scale)

    def sampled_operators(
        self, view: View, nodes: Tensor, streams: Streams | None = None, draws: Tensor | None = None
    ) -> Operators:
        if view.device_graph.in_blocks:
            return self.block_operators(view, nodes)
        if not lists_rows_of(view):
            return super().sampled_operators(view, nodes, streams, draws)
        return ListedOperators(ListedFrontier(view, self, nodes, streams, draws))

    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> Matrix:
        def laid_out(arrays: CSRArrays, shape: tuple[int, int]) -> Any:
            indptr, columns, values = (torch.from_numpy(each) for each in arrays)
            return self.kernels.prepare(indptr, columns.to(self.device), values, shape)

        return KernelMatrix(self.dense, laid_out(arrays, shape), lambda: laid_out(arrays.transposed(shape), shape[::-1]))

    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        return self.features(to_sparse_matrix(rows, self.device), mask)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        if mask is not None and mask.elements:
            x, mask = x.with_values(x.values * mask.of_elements(x.rows, x.columns)), None
        forward, transposed = structures(x)
        return KernelFeatures(forward, lambda: transposed, self, x, mask)

    def dense_features(self, x: Tensor) -> Tensor:
        # Tensor cores read rows fastest whose size is a multiple of 16 bytes.
        return torch.nn.functional.pad(x.to(self.dtype), (0, -x.shape[1] % (16 // self.dtype.itemsize)))

    def weight(self, weight: Tensor, mask: Mask | None = None, first: bool = False) -> Tensor:
        rows = weight.shape[0] + (-weight.shape[0] % (16 // self.dtype.itemsize) if first else 0)
        return self.kernels.masked_weight(weight, mask, self.dtype, rows)

    def streams(self, device_graph: DeviceGraph, count: int) -> Streams:
        return Streams(self.device, count if device_graph.graph.num_nodes <= _NODES_THAT_FILL_GPU else 1)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        return self.kernels.nt_xent(self.kernels.unit_rows(rows, self.dtype), temperature)


def _degrees(links: SparseMatrix) -> Tensor:
    """The sum of each row."""
    zeros = torch.zeros(links.shape[0], device=links.values.device)
    return links.once("degrees", lambda: zeros.index_add(0, links.rows, links.values))

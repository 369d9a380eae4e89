"""The GPU engines: fused Triton kernels, or without Triton cuSPARSE on a fixed structure."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clnr import rng
from clnr.engine.base import Engine, Operators
from clnr.engine.gpu.triton_dense import KernelDense, tf32, triton_kernels
from clnr.engine.sparse_matrix import SparseMatrix, to_sparse_matrix
from clnr.engine.streams import Streams
from clnr.engine.torch_sparse import BlockEngine, Features, FusedMatrix, Matrix, TorchEngine, TorchMatrix, in_files
from clnr.engine.view import DeviceGraph, Drop, Mask, View
from clnr.errors import DeviceError

if TYPE_CHECKING:
    import scipy.sparse as sp

    from clnr.engine.cpu.cpu_engine import CSRArrays

_DENSE_ABOVE = 0.05
# A view of more nodes fills the GPU alone; side by side, views would only evict each other from its cache.
_FILLS_GPU = 50_000


def gpu_engine(dtype: torch.dtype | None = None) -> Engine:
    """The GPU engine: Triton's kernels, by default in bfloat16 where the GPU has it; without Triton torch's, in float32."""
    device = torch.device("cuda", torch.cuda.current_device())
    if triton_kernels() is not None:
        return KernelEngine(device, dtype or (torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32))
    if dtype == torch.bfloat16:
        raise DeviceError("bfloat16 on a GPU needs Triton, which is not installed: pip install triton; or use float32")
    warnings.warn("Triton is not installed, so training on the GPU is slower; pip install triton", stacklevel=2)
    return TorchEngine("gpu-torch", device, _multiply, _DENSE_ABOVE)


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    return matrix @ dense


class KernelMatrix(FusedMatrix):
    """A matrix without what one view drops; its transpose is built when a gradient needs it.

    Args:
        engine: Whose kernels multiply.
        forward: The matrix, laid out for the kernels.
        transposed: Builds its transpose.
        left: What rows are multiplied by.
        right: What columns are multiplied by.
    """

    def __init__(
        self,
        engine: KernelEngine,
        forward: Any,
        transposed: Callable[[], Any],
        left: Tensor | None = None,
        right: Tensor | None = None,
    ):
        self._kernels, self.dense = engine.kernels, engine.dense
        self._forward, self._build_transposed = forward, transposed
        self._left, self._right = left, right

    @cached_property
    def _transposed(self) -> Any:
        return self._build_transposed()

    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        matrix, left, right = self._forward, self._left, self._right
        if transposed:
            matrix, left, right = self._transposed, right, left
        return self._kernels.multiply(matrix, h, left, right, relu, mask, bias)


class KernelFeatures(Features):
    """Sparse features; a mask of columns sets rows of the weight to zero."""

    def __init__(self, matrix: KernelMatrix, engine: KernelEngine, x: SparseMatrix, mask: Mask | None):
        self._matrix, self._engine, self._x, self._mask = matrix, engine, x, mask

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        return self._matrix(self._engine.weight(h, self._mask), relu, bias)

    def to_dense(self) -> Tensor:
        return _as_values(self._x, self._mask).to_dense()


def _as_values(x: SparseMatrix, mask: Mask | None) -> TorchMatrix:
    """Features with masked values at zero."""
    return TorchMatrix(x, x.values if mask is None else x.values * mask.of_entries(x), _multiply)


class KernelEngine(BlockEngine):
    """Triton's kernels: a view's dropped edges are removed once, by the same draws as on a CPU, for all its products.

    Args:
        device: The device they run on.
        dtype: The type of rows inside an encoder: float32 or bfloat16.
    """

    name = "gpu"
    dense_above = _DENSE_ABOVE
    parallel_seeds = 32
    compiles = True

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32):
        kernels = triton_kernels()
        assert kernels is not None
        self.device, self.dtype, self.kernels = device, dtype, kernels
        self.dense = KernelDense(kernels)

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        with super().own_stream(), nullcontext() if self.dtype == torch.float32 else tf32():
            yield

    def prepare(self, view: View) -> None:
        super().prepare(view)
        if in_files(view.device_graph):
            return
        links, x = view.propagation, view.device_graph.features
        self.structures(links)
        _degrees(links)
        if isinstance(x, SparseMatrix):
            self.structures(x)

    def propagation(self, view: View) -> Matrix:
        drop, kernels, links = view.drop, self.kernels, view.propagation
        forward, transposed = self.structures(links)
        if drop is None:
            sums = _degrees(links)
        else:
            forward, sums = kernels.drop_entries(forward, dropped(kernels, drop))
        scale = sums.rsqrt() if view.propagation_matrix is None else None

        def build_transposed() -> Any:
            if drop is None:
                return transposed
            return kernels.drop_entries(transposed, dropped(kernels, drop, links.order), transposed=True)[0]

        return KernelMatrix(self, forward, build_transposed, scale, scale)

    def sampled_operators(
        self, view: View, nodes: Tensor, streams: Streams | None = None, draws: Tensor | None = None
    ) -> Operators:
        from clnr.engine.gpu.cuda_frontier import Frontier, ListedOperators, lists_rows_of

        if in_files(view.device_graph):
            return self.block_operators(view, nodes)
        if not lists_rows_of(view):
            return super().sampled_operators(view, nodes, streams, draws)
        return ListedOperators(Frontier(view, self, nodes, streams, draws))

    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> Matrix:
        def laid_out(arrays: CSRArrays, shape: tuple[int, int]) -> Any:
            indptr, columns, values = (torch.from_numpy(each) for each in arrays)
            return self.kernels.prepare(indptr, columns.to(self.device), values, shape)

        return KernelMatrix(self, laid_out(arrays, shape), lambda: laid_out(arrays.transposed(shape), shape[::-1]))

    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        return self.features(to_sparse_matrix(rows, self.device), mask)

    def structures(self, matrix: SparseMatrix) -> tuple[Any, Any]:
        """The matrix and its transpose, laid out for the kernels once."""

        def laid_out() -> tuple[Any, Any]:
            if matrix.pattern is not None:
                # To lay out is to wait for the GPU, but not to fill in other values.
                forward, transposed = self.structures(matrix.pattern)
                return replace(forward, values=matrix.values), replace(transposed, values=matrix.transposed_values)
            values = None if bool((matrix.values == 1).all()) else matrix.values
            rows, columns = matrix.shape
            forward = self.kernels.prepare(matrix.indptr, matrix.columns, values, (rows, columns))
            values = None if values is None else matrix.transposed_values
            return forward, self.kernels.prepare(matrix.transposed_indptr, matrix.transposed_columns, values, (columns, rows))

        return matrix.once("structure", laid_out)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        if mask is not None and mask.elements:
            return _as_values(x, mask)
        forward, transposed = self.structures(x)
        return KernelFeatures(KernelMatrix(self, forward, lambda: transposed), self, x, mask)

    def dense_features(self, x: Tensor) -> Tensor:
        # Tensor cores read rows fastest whose size is a multiple of 16 bytes.
        return torch.nn.functional.pad(x.to(self.dtype), (0, -x.shape[1] % (16 // self.dtype.itemsize)))

    def weight(self, weight: Tensor, mask: Mask | None = None, first: bool = False) -> Tensor:
        rows = weight.shape[0] + (-weight.shape[0] % (16 // self.dtype.itemsize) if first else 0)
        if mask is None:
            return self.kernels.masked_weight(weight, dtype=self.dtype, rows=rows)
        return self.kernels.masked_weight(weight, mask.key, rng.threshold(mask.rate), mask.scale, self.dtype, rows)

    def streams(self, device_graph: DeviceGraph, count: int) -> Streams:
        return Streams(self.device, count if device_graph.graph.num_nodes <= _FILLS_GPU else 1)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        return self.kernels.nt_xent(self.kernels.unit_rows(rows, self.dtype), temperature)


def _degrees(links: SparseMatrix) -> Tensor:
    """The sum of each row."""
    zeros = torch.zeros(links.shape[0], device=links.values.device)
    return links.once("degrees", lambda: zeros.index_add(0, links.rows, links.values))


def dropped(kernels: ModuleType, drop: Drop | None, order: Tensor | None = None) -> Any:
    """Which entries are dropped, as the kernels take it; rates of single entries in the order of the structure."""
    if drop is None:
        return None
    rate = drop.rate if order is None or not isinstance(drop.rate, Tensor) else drop.rate[order]
    return kernels.Dropped(drop.key, rng.threshold(rate), drop.pairs)

"""The GPU's engines: fused kernels where Triton is there, else cuSPARSE on a fixed structure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from clnr import rng
from clnr.engine.base import DeviceGraph, Drop, Engine, Mask, View
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.streams import Lanes
from clnr.engine.torch_sparse import Features, FusedMatrix, Matrix, SparseEngine, TorchEngine, TorchMatrix
from clnr.engine.triton_dense import KernelDense, kernels
from clnr.errors import DeviceError

_DENSE_ABOVE = 0.05
# Views of more nodes fill a chip alone, and would only drive each other out of its cache.
_FILLING = 50_000


def gpu(dtype: torch.dtype | None = None) -> Engine:
    """Triton's kernels, in bfloat16 where the GPU has it unless said otherwise; without Triton what torch has, in float32."""
    device = torch.device("cuda", torch.cuda.current_device())
    if kernels() is not None:
        return KernelEngine(device, dtype or (torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32))
    if dtype == torch.bfloat16:
        raise DeviceError("bfloat16 on a GPU needs Triton, which is not installed: pip install triton; or use float32")
    warnings.warn("Triton is not installed, so that training on the GPU is slower; pip install triton", stacklevel=2)
    return TorchEngine("gpu-torch", device, _multiply, _DENSE_ABOVE)


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    return matrix @ dense


class KernelMatrix(FusedMatrix):
    """A structure and its transpose, thinned out for one view, the latter only when a gradient asks for it."""

    def __init__(self, engine: KernelEngine, there: Any, back: Callable[[], Any], scale: Tensor | None = None):
        self._tools, self.dense = engine.tools, engine.dense
        self._there, self._thin, self._scale = there, back, scale

    @cached_property
    def _back(self) -> Any:
        return self._thin()

    def multiply(
        self, back: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        side, scale = self._back if back else self._there, self._scale
        return self._tools.multiply(side, h, scale, scale, relu, mask, bias)


class KernelFeatures(Features):
    """Sparse features, whose masked columns are rows of the weight at zero."""

    def __init__(self, matrix: KernelMatrix, engine: KernelEngine, x: SparseMatrix, mask: Mask | None):
        self._matrix, self._engine, self._x, self._mask = matrix, engine, x, mask

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        return self._matrix(self._engine.weight(h, self._mask), relu, bias)

    def to_dense(self) -> Tensor:
        return _as_values(self._x, self._mask).to_dense()


def _as_values(x: SparseMatrix, mask: Mask | None) -> TorchMatrix:
    """Features with what is masked of them at zero."""
    return TorchMatrix(x, x.values if mask is None else x.values * mask.of_entries(x), _multiply)


class KernelEngine(SparseEngine):
    """Triton's kernels: a view's edges are thinned out once, by the same hash as everywhere, for all its products.

    Args:
        device: Where they run.
        dtype: Of rows inside an encoder: float32 or bfloat16.
    """

    name = "gpu"
    dense_above = _DENSE_ABOVE
    parallel_seeds = 32
    compiles = True

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32):
        tools = kernels()
        assert tools is not None
        self.device, self.dtype, self.tools = device, dtype, tools
        self.dense = KernelDense(tools)
        self.precision = str(dtype).removeprefix("torch.")

    @property
    def float32(self) -> Engine:
        return self if self.dtype == torch.float32 else KernelEngine(self.device)

    def prepare(self, view: View) -> None:
        super().prepare(view)
        links, x = view.propagation, view.device_graph.features
        self._sides(links)
        _degrees(links)
        if isinstance(x, SparseMatrix):
            self._sides(x)

    def propagation(self, view: View) -> Matrix:
        drop, tools, links = view.drop, self.tools, view.propagation
        there, back = self._sides(links)
        if drop is None:
            sums = _degrees(links)
        else:
            there, sums = tools.drop_entries(there, _rule(tools, drop, None))
        scale = sums.rsqrt() if view.propagation_matrix is None else None

        def behind() -> Any:
            return back if drop is None else tools.drop_entries(back, _rule(tools, drop, links.order), transposed=True)[0]

        return KernelMatrix(self, there, behind, scale)

    def _sides(self, links: SparseMatrix) -> tuple[Any, Any]:
        """The structure and its transpose, laid out for the kernels once a matrix."""

        def prepared() -> tuple[Any, Any]:
            values = None if bool((links.values == 1).all()) else links.values
            rows, columns = links.shape
            there = self.tools.prepare(links.start, links.columns, values, (rows, columns))
            values = None if values is None else links.transposed_values
            return there, self.tools.prepare(links.transposed_start, links.transposed_columns, values, (columns, rows))

        return links.once("structure", prepared)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        if mask is not None and mask.elements:
            return _as_values(x, mask)
        there, back = self._sides(x)
        return KernelFeatures(KernelMatrix(self, there, lambda: back), self, x, mask)

    def dense_features(self, x: Tensor) -> Tensor:
        # Rows of whole 16 bytes are what matrix units read fastest.
        return torch.nn.functional.pad(x.to(self.dtype), (0, -x.shape[1] % (16 // self.dtype.itemsize)))

    def weight(self, weight: Tensor, mask: Mask | None = None, first: bool = False) -> Tensor:
        rows = weight.shape[0] + (-weight.shape[0] % (16 // self.dtype.itemsize) if first else 0)
        if mask is None:
            return self.tools.masked_weight(weight, dtype=self.dtype, rows=rows)
        return self.tools.masked_weight(weight, mask.key, rng.threshold(mask.rate), mask.scale, self.dtype, rows)

    def lanes(self, device_graph: DeviceGraph, count: int) -> Lanes:
        return Lanes(self.device, count if device_graph.graph.num_nodes <= _FILLING else 1)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        return self.tools.nt_xent(self.tools.unit_rows(rows, self.dtype), temperature)


def _degrees(links: SparseMatrix) -> Tensor:
    """The weight that each row receives of all entries."""
    zeros = torch.zeros(links.shape[0], device=links.values.device)
    return links.once("degrees", lambda: zeros.index_add(0, links.rows, links.values))


def _rule(tools: ModuleType, drop: Drop, order: Tensor | None) -> Any:
    """A rule of dropping as the kernels take it; rates of single entries in the order of the structure."""
    rate = drop.rate if order is None or not isinstance(drop.rate, Tensor) else drop.rate[order]
    return tools.Dropped(drop.key, rng.threshold(rate), drop.pairs)

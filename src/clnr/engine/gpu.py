"""The GPU's engines: fused kernels where Triton is there, else cuSPARSE on a fixed structure."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from clnr import chance
from clnr.engine.base import Drop, Engine, Mask, Placed, View
from clnr.engine.dense import kernels
from clnr.engine.lanes import Lanes
from clnr.engine.pattern import Pattern
from clnr.engine.sparse import FusedMatrix, Matrix, SparseEngine, TorchEngine, TorchMatrix

_DENSE_ABOVE = 0.05
# Views of more nodes fill a chip alone, and would only drive each other out of its cache.
_FILLING = 50_000


def gpu() -> Engine:
    return TorchEngine("gpu", torch.device("cuda", torch.cuda.current_device()), _multiply, _DENSE_ABOVE)


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    return matrix @ dense


class KernelMatrix(FusedMatrix):
    """A structure and the rule of what is dropped of it, drawn anew in every product, never stored."""

    def __init__(
        self,
        tools: ModuleType,
        sides: tuple[Any, Any],
        drops: tuple[Any, Any],
        scale: Tensor | None,
        whole: Callable[[], Matrix],
    ):
        self._tools, self._sides, self._drops, self._scale, self._whole = tools, sides, drops, scale, whole

    def multiply(
        self, back: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        scale, drop = self._scale, self._drops[back]
        return self._tools.multiply(self._sides[back], h, drop, scale, scale, relu, mask, bias, transposed=back)

    def dense(self) -> Tensor:
        return self._whole().dense()


class KernelFeatures(Matrix):
    """Sparse features, whose masked columns are rows of the weight at zero."""

    def __init__(self, matrix: KernelMatrix, engine: KernelEngine, mask: Mask | None):
        self._matrix, self._engine, self._mask = matrix, engine, mask

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        return self._matrix(self._engine.weight(h, self._mask), relu, bias)

    def dense(self) -> Tensor:
        return self._matrix.dense()


class KernelEngine(SparseEngine):
    """Triton's kernels: edges are dropped inside the product, by the same hash as everywhere.

    Args:
        device: Where they run.
        dtype: Of rows inside an encoder: float32 or bfloat16.
    """

    name = "gpu"
    dense_above = _DENSE_ABOVE

    def __init__(self, device: torch.device, dtype: torch.dtype = torch.float32):
        tools = kernels()
        assert tools is not None
        self.device, self.dtype, self._tools = device, dtype, tools
        self.precision = str(dtype).removeprefix("torch.")

    def propagation(self, view: View) -> Matrix:
        placed, links = view.placed, view.placed.edges if view.links is None else view.links
        sides = self._sides(placed, links)
        drops = _rule(self._tools, view.drop, None), _rule(self._tools, view.drop, links.order)
        scale = None if view.links is not None else self._tools.degrees(sides[0], drops[0]).rsqrt()
        return KernelMatrix(self._tools, sides, drops, scale, lambda: TorchMatrix(links, links.values, _multiply))

    def _sides(self, placed: Placed, links: Pattern) -> tuple[Any, Any]:
        """The structure and its transpose, laid out for the kernels once a graph."""

        def prepared() -> tuple[Any, Any]:
            values = None if bool((links.values == 1).all()) else links.values
            rows, columns = links.shape
            there = self._tools.prepare(links.start, links.columns, values, (rows, columns))
            values = None if values is None else links.transposed_values
            return there, self._tools.prepare(links.transposed_start, links.transposed_columns, values, (columns, rows))

        return placed.once(("structure", id(links)), prepared)

    def features(self, placed: Placed, x: Pattern, mask: Mask | None) -> Matrix:
        def whole() -> Matrix:
            return TorchMatrix(x, x.values if mask is None else x.values * mask.of_entries(x), _multiply)

        if mask is not None and mask.elements:
            return whole()
        return KernelFeatures(KernelMatrix(self._tools, self._sides(placed, x), (None, None), None, whole), self, mask)

    def dense(self, x: Tensor) -> Tensor:
        # Rows of whole 16 bytes are what matrix units read fastest.
        return torch.nn.functional.pad(x.to(self.dtype), (0, -x.shape[1] % (16 // self.dtype.itemsize)))

    def weight(self, weight: Tensor, mask: Mask | None = None, first: bool = False) -> Tensor:
        rows = weight.shape[0] + (-weight.shape[0] % (16 // self.dtype.itemsize) if first else 0)
        if mask is None:
            return self._tools.masked_weight(weight, dtype=self.dtype, rows=rows)
        return self._tools.masked_weight(weight, mask.key, chance.threshold(mask.rate), mask.scale, self.dtype, rows)

    def lanes(self, placed: Placed, count: int) -> Lanes:
        return Lanes(self.device, count if placed.graph.num_nodes <= _FILLING else 1)

    def contrast(self, rows: Tensor, temperature: float) -> Tensor:
        return self._tools.contrast(self._tools.unit_rows(rows, self.dtype), temperature)


def _rule(tools: ModuleType, drop: Drop | None, order: Tensor | None) -> Any:
    """A rule of dropping as the kernels take it; rates of single entries in the order of the structure."""
    if drop is None:
        return None
    rate = drop.rate if order is None or not isinstance(drop.rate, Tensor) else drop.rate[order]
    return tools.Dropped(drop.key, chance.threshold(rate), drop.pairs)

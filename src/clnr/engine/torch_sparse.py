"""What engines with sparse matrices share, NT-Xent in blocks of rows, and an engine of torch's own sparse products."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
import torch
from torch import Tensor

from clnr.engine.base import Engine, Operators, unit_rows
from clnr.engine.dense import PLAIN, Dense, narrowed, product
from clnr.engine.sparse_matrix import SparseMatrix
from clnr.engine.streams import IdentityKey, Streams
from clnr.engine.view import DeviceGraph, Mask, View, to_device
from clnr.graph import Graph
from clnr.graph.graph_folder import GraphFolder

if TYPE_CHECKING:
    from clnr.engine.cpu.cpu_engine import CSRArrays

Multiply = Callable[[Tensor, Tensor], Tensor]

# torch warns once a process that CSR tensors are in beta. What is used of them here is tested against the reference, so the
# warning is triggered here, on an empty one, and ignored; a user's own warning filters stay as they are.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(0, 0))

_SIMILARITIES = 1 << 24
_AHEAD = "read ahead"


class Matrix(ABC):
    """A sparse matrix of one view, ready to multiply; its values get no gradient."""

    @abstractmethod
    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        """S h, or S relu(h); plus ``bias`` where given."""


class Features(Matrix):
    """The features of a view."""

    @abstractmethod
    def to_dense(self) -> Tensor: ...


class FusedMatrix(Matrix):
    """A matrix whose product includes ReLU before it, bias after it, and ReLU's mask of the gradient."""

    dense: Dense = PLAIN
    """The engine's dense operations, for the gradient of the bias."""

    @abstractmethod
    def multiply(
        self, transposed: bool, h: Tensor, relu: bool = False, bias: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """S f(h) + bias, f being ReLU or the identity, and zero where ``mask`` is not above zero; or the same of S^T."""

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        return _FusedProduct.apply(h.contiguous(), bias, self, relu)


class _FusedProduct(torch.autograd.Function):
    """S f(h) + b, f being ReLU or the identity; its gradient is S^T g, and zero where f was."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, bias: Tensor | None, matrix: FusedMatrix, relu: bool) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(h if relu else None)
        return matrix.multiply(False, h, relu=relu, bias=bias)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (g,) = grads
        (h,) = ctx.saved_tensors
        of_h = ctx.matrix.multiply(True, g.contiguous(), mask=h) if ctx.needs_input_grad[0] else None
        return of_h, ctx.matrix.dense.column_sums(g) if ctx.needs_input_grad[1] else None, None, None


class MatrixOperators(Operators):
    """Products with a sparse matrix for propagation and, where features are sparse, with another for the first layer."""

    def __init__(self, view: View, engine: SparseEngine):
        super().__init__(view)
        self._engine, self.dense = engine, engine.dense

    @property
    @abstractmethod
    def _x(self) -> Tensor | Features:
        """X, masked where it is sparse or elements are masked; a mask of dense columns is applied to the weight instead."""

    @property
    @abstractmethod
    def _adjacency(self) -> Matrix:
        """What to propagate by."""

    @property
    def features(self) -> Tensor:
        mask = self.view.mask
        if isinstance(self._x, Features):
            return self._permuted(self._x.to_dense())
        x = self._x[:, : self.view.device_graph.graph.num_features].float()
        return self._permuted(x if mask is None or mask.elements else x * mask.of_columns(x.shape[1], x.device))

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if isinstance(self._x, Features):
            return self._permuted(self._x(weight, bias=bias).to(self._engine.dtype))
        weight = self._masked(weight)
        return self._permuted(self._x @ weight if bias is None else self.dense.linear(self._x, weight, bias))

    def _masked(self, weight: Tensor) -> Tensor:
        """A column mask on X is a row mask on W, so that X need not be copied."""
        mask = self.view.mask
        return self._engine.weight(weight, None if mask is None or mask.elements else mask, first=True)

    def _permuted(self, rows: Tensor) -> Tensor:
        """Rows in the order of the view's nodes."""
        return rows

    def propagate(self, h: Tensor, relu: bool = False) -> Tensor:
        return self._adjacency(h, relu)

    def _propagates_first(self, weight: Tensor) -> bool:
        """Whether A_hat h is cheaper to multiply by a weight than h is, before it is propagated."""
        return weight.shape[0] <= weight.shape[1]

    def convolve(self, weight: Tensor, bias: Tensor, h: Tensor | None = None, relu: bool = False) -> Tensor:
        first = self._propagates_first(weight)
        if h is None and first and isinstance(self._x, Tensor):
            return self.dense.linear(self.propagate(self._permuted(self._x)), self._masked(weight), bias)
        if h is None:
            return self._adjacency(self.project(weight), bias=bias)
        if first:
            return self.dense.linear(self.propagate(h, relu), self._engine.weight(weight), bias)
        return self._adjacency((h.relu() if relu else h) @ self._engine.weight(weight), bias=bias)


class SparseOperators(MatrixOperators):
    """The maps of all nodes. Views of the same features share what they are multiplied by, and nodes may be permuted."""

    def __init__(self, view: View, engine: SparseEngine, streams: Streams | None):
        super().__init__(view, engine)
        self._streams = Streams() if streams is None else streams
        self._matrices = self._features(), engine.propagation(view)

    @property
    def _x(self) -> Tensor | Features:
        return self._matrices[0]

    @property
    def _adjacency(self) -> Matrix:
        return self._matrices[1]

    def _features(self) -> Tensor | Features:
        device_graph, mask, x = self.view.device_graph, self.view.mask, self.view.device_graph.features
        if not isinstance(x, Tensor):
            return self._engine.features(x, mask)
        x = self._engine.all_features(device_graph, x)
        if mask is None or not mask.elements:
            return x
        rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
        return x * mask.of_elements(rows[:, None], columns).to(x.dtype)

    def project(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.view.mask is not None or self.view.node_permutation is not None:
            return super().project(weight, bias)
        # Views with all features share this product, and their gradients are added up before it is differentiated.
        product = super().project
        return self._streams.once(IdentityKey(weight, bias), lambda: product(weight, bias))

    def _permuted(self, rows: Tensor) -> Tensor:
        return rows if self.view.node_permutation is None else rows.index_select(0, self.view.node_permutation)


class _Product(torch.autograd.Function):
    """S h for a constant sparse S, given with its transpose; the gradient is S^T g."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, matrix: Tensor, transposed: Tensor, multiply: Multiply) -> Tensor:
        ctx.transposed, ctx.multiply = transposed, multiply
        return multiply(matrix, h)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.multiply(ctx.transposed, grads[0].contiguous()), None, None, None


class TorchMatrix(Features):
    """A sparse matrix with one view's values, multiplied by torch."""

    def __init__(self, matrix: SparseMatrix, values: Tensor, multiply: Multiply):
        rows, columns = matrix.shape
        self._multiply = multiply
        self._matrix = torch.sparse_csr_tensor(matrix.indptr, matrix.columns, values, size=(rows, columns))
        self._transposed = torch.sparse_csr_tensor(
            matrix.transposed_indptr, matrix.transposed_columns, values[matrix.order], size=(columns, rows)
        )

    def __call__(self, h: Tensor, relu: bool = False, bias: Tensor | None = None) -> Tensor:
        h = (h.relu() if relu else h).contiguous()
        product = _Product.apply(h, self._matrix, self._transposed, self._multiply)
        return product if bias is None else product + bias

    def to_dense(self) -> Tensor:
        return self._matrix.to_dense()


class _NTXent(torch.autograd.Function):
    r"""NT-Xent over all 2m rows, in blocks of rows: memory grows with m, never with m squared.

    With :math:`l = R R^T / \tau` (diagonal left out) and :math:`P_{ij} = \exp(l_{ij} - \mathrm{lse}_i)` the gradient is
    :math:`((P + P^T) R - 2 R_{twin}) / (2 m \tau)`, and :math:`P^T_{ij} = \exp(l_{ij} - \mathrm{lse}_j)` since l is symmetric.
    Products are of rows in ``dtype``; all else is in float32.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float, dtype: torch.dtype) -> Tensor:
        count, narrow = rows.shape[0], narrowed(rows, dtype)
        lse = rows.new_empty(count)
        for block in _blocks(count):
            logits = _logits(narrow, block, temperature)
            lse[block] = logits.logsumexp(1)
        twin = rows.roll(count // 2, 0)
        # The logits of a single block are kept for the backward pass; those of several are computed again, to save memory.
        ctx.save_for_backward(rows, None if narrow is rows else narrow, lse, logits if len(_blocks(count)) == 1 else None)
        ctx.temperature = temperature
        return (lse - (rows * twin).sum(1) / temperature).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, narrow, lse, kept = ctx.saved_tensors
        count = rows.shape[0]
        gradient = rows.roll(count // 2, 0).mul_(-2.0) if narrow is None else torch.empty_like(rows)
        for block in _blocks(count):
            logits = _logits(rows if narrow is None else narrow, block, ctx.temperature) if kept is None else kept
            both = (logits - lse[block, None]).exp_().add_((logits - lse).exp_())
            if narrow is None:
                gradient[block] += both @ rows
            else:
                gradient[block] = product(narrowed(less_twins(both, block.start), narrow.dtype), narrow)
        return gradient * (grads[0] / (count * ctx.temperature)), None, None


def less_twins(both: Tensor, begin: int) -> Tensor:
    """Some rows of P + P^T, from row ``begin`` on, less 2 where a row meets its twin, in place: the gradient as one product.

    Where twins are close, both are nearly 2. They are subtracted before they are rounded to bfloat16.
    """
    half = both.shape[1] // 2
    both.diagonal(begin + half).sub_(2)
    both.diagonal(begin - half).sub_(2)
    return both


def _blocks(count: int) -> list[slice]:
    """Blocks of rows whose similarities to all rows take a bounded memory."""
    size = max(1, _SIMILARITIES // max(count, 1))
    return [slice(begin, begin + size) for begin in range(0, count, size)]


def _logits(rows: Tensor, block: slice, temperature: float) -> Tensor:
    logits = product(rows[block], rows.T).div_(temperature)
    logits.diagonal(block.start).fill_(-torch.inf)
    return logits


class SparseEngine(Engine):
    """An engine that multiplies sparse matrices."""

    dense_above: float
    """Share of non-zero features above which a dense first layer is faster."""

    @abstractmethod
    def propagation(self, view: View) -> Matrix:
        """The matrix that the view propagates by."""

    @abstractmethod
    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        """The masked features."""

    def prepare(self, view: View) -> None:
        if isinstance(view.device_graph.features, Tensor):
            self.all_features(view.device_graph, view.device_graph.features)

    def all_features(self, device_graph: DeviceGraph, x: Tensor) -> Tensor:
        """``dense_features``, computed once for a graph."""
        return device_graph.once(("features", self.dtype), lambda: self.dense_features(x))

    def dense_features(self, x: Tensor) -> Tensor:
        """Dense features in the form that is multiplied."""
        return x.to(self.dtype)

    def weight(self, weight: Tensor, mask: Mask | None = None, first: bool = False) -> Tensor:
        """A weight in the form that rows are multiplied by, the ``first`` fitting ``dense_features``; masked rows are zero."""
        if mask is not None:
            weight = weight * mask.of_columns(weight.shape[0], weight.device)[:, None]
        return weight.to(self.dtype)

    def to_device(self, graph: Graph) -> DeviceGraph:
        return to_device(graph, self.device, self.dense_above)

    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        return SparseOperators(view, self, streams)

    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        return _NTXent.apply(unit_rows(rows), temperature, self.dtype)


class BlockEngine(SparseEngine):
    """An engine that can compute rows of nodes that a CPU finds, and so also those of a graph that stays in files."""

    reads_files = True

    @abstractmethod
    def block_matrix(self, arrays: CSRArrays, shape: tuple[int, int]) -> Matrix:
        """A matrix from the host, ready to multiply."""

    @abstractmethod
    def block_features(self, rows: sp.csr_array, mask: Mask | None) -> Features:
        """Sparse features of some nodes from the host; ``mask`` is one of columns."""

    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        """The linear maps of a view; of a graph in files those of a fixed sample of nodes, for statistics of all."""
        if not self.workers.alone:
            from clnr.engine.distributed.shared_rows import SharedOperators, is_whole

            if is_whole(view):
                return SharedOperators(view, self)
        if in_files(view.device_graph):
            from clnr.engine.files.mapped import measured_nodes

            return self.block_operators(view, measured_nodes(view.device_graph.graph.num_nodes))
        return super().operators(view, streams)

    def block_operators(self, view: View, nodes: Tensor) -> Operators:
        """``sampled_operators`` whose nodes a CPU finds."""
        from clnr.engine.cpu.frontier import Frontier, FrontierOperators

        wanted, ahead = nodes.numpy(force=True), view.device_graph.made.get(_AHEAD)
        return FrontierOperators(view, self, Frontier(view, wanted) if ahead is None else ahead.frontier(view, wanted))

    @contextmanager
    def reading_ahead(self, device_graph: DeviceGraph) -> Iterator[None]:
        if not in_files(device_graph):
            yield
            return
        from clnr.engine.files.read_ahead import ReadAhead

        ahead = device_graph.once(_AHEAD, ReadAhead)
        try:
            yield
        finally:
            del device_graph.made[_AHEAD]
            ahead.end()

    def read_ahead(self, views: Sequence[View], nodes: Tensor) -> None:
        if (ahead := views[0].device_graph.made.get(_AHEAD)) is not None:
            ahead.begin(views, nodes)

    def to_device(self, graph: Graph) -> DeviceGraph:
        """Move a graph to the device; one in a folder stays in its files."""
        if isinstance(graph, GraphFolder):
            from clnr.engine.files.mapped import map_folder

            return map_folder(graph)
        return super().to_device(graph)


def in_files(device_graph: DeviceGraph) -> bool:
    """Whether a graph stays in its files."""
    return isinstance(device_graph.graph, GraphFolder)


class TorchEngine(SparseEngine):
    """Torch's own sparse product, on a fixed structure: dropped edges get the value zero.

    Args:
        name: The engine's name, recorded with a run.
        device: The device it computes on.
        multiply: The product of a CSR matrix and a dense one.
        dense_above: Share of non-zero features above which a dense first layer is faster.
    """

    def __init__(self, name: str, device: torch.device, multiply: Multiply, dense_above: float):
        self.name = name
        self.device = device
        self.dense_above = dense_above
        self._multiply = multiply

    def propagation(self, view: View) -> Matrix:
        links = view.propagation
        weight = links.values if view.drop is None else links.values * view.drop.keep(links)
        if view.propagation_matrix is None:
            ones = torch.ones(links.shape[1], 1, device=self.device)
            structure = torch.sparse_csr_tensor(links.indptr, links.columns, weight, size=links.shape)
            scale = self._multiply(structure, ones)[:, 0].rsqrt()
            weight = scale[links.rows] * weight * scale[links.columns]
        return TorchMatrix(links, weight, self._multiply)

    def features(self, x: SparseMatrix, mask: Mask | None) -> Features:
        return TorchMatrix(x, x.values if mask is None else x.values * mask.of_entries(x), self._multiply)

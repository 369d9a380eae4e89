"""NT-Xent of unit rows. Few similarities are stored; more are computed tile by tile, forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from clnr.engine.gpu.triton.jit import blocks, chip, power
from clnr.engine.gpu.triton.ntxent_kernels import attract, gradient, loss_of, reduce, reduce_stored, softmaxes
from clnr.engine.products import product, widens

# For float32: three products on the tensor cores, at nearly the precision of float32.
PRECISION = "tf32x3"
# Splits of the columns: the most there are, and what share of the work each is assumed to add, for its partial results.
_MOST_SPLITS, _COST_PER_SPLIT = 16, 0.02
# So many rows or fewer have few enough similarities for a GPU's cache, and cuBLAS multiplies faster than a kernel of tiles.
_STORED_ROWS = 4096


def nt_xent(rows: Tensor, temperature: float) -> Tensor:
    """NT-Xent of unit rows [2m, F]: the first half is one view's, the second the other's, in the same order."""
    stored = rows.dtype == torch.bfloat16 and len(rows) <= _STORED_ROWS and (widens() or not rows.is_cuda)
    return (_StoredNTXent if stored else _NTXent).apply(rows, temperature)


class _Plan(NamedTuple):
    """The size of tiles: rows and columns of similarities, ``depth`` features of a product and ``width`` of a gradient."""

    rows: int
    columns: int
    depth: int
    width: int
    splits: int
    warps: int
    stages: int


def _plan(rows: Tensor, backward: bool) -> _Plan:
    """Tiles that fit the shared memory, and as many splits of the columns as let all processors finish together."""
    processors, shared = chip(rows.device)
    count, features = rows.shape
    whole, bytes_each = power(features), rows.element_size()
    width = min(whole, 512 if shared > 160 << 10 else 256)
    if bytes_each == 4:
        # In float32 the code of a tile is unrolled, hence small tiles.
        side, columns, depth, stages = 32, 32, min(whole, 32), 2
    else:
        side, columns, depth, stages = 64, 64, 64, 2
        # Where whole rows fit, a tile's columns are read once for both products, and the next tile's while it is multiplied.
        for size, deep in ((64, 2), (32, 2), (32, 1), (16, 1)) if whole <= 512 else ():
            if 2 * (side * whole + size * deep * whole + side * size) <= shared:
                columns, depth, width, stages = size, whole, whole, deep
                break
    # Programs of at most 256 features take few enough registers, and less than half of the memory, to run two at a time.
    slots = processors * (1 if width > 256 else 2)
    across = blocks(count, side) * (blocks(features, width) if backward else 1)
    limit = min(blocks(count, columns), _MOST_SPLITS)
    splits = min(range(1, limit + 1), key=lambda s: blocks(across * s, slots) / s * (1 + _COST_PER_SPLIT * s))
    return _Plan(side, columns, depth, width, splits, 8 if width > 256 else 4, stages)


class _NTXent(torch.autograd.Function):
    r"""NT-Xent over all 2m rows.

    With :math:`l = R R^T / \tau` (diagonal left out) and :math:`P_{ij} = \exp(l_{ij} - \mathrm{lse}_i)` the gradient is
    :math:`((P + P^T) R - 2 R_{twin}) / (2 m \tau)`, and :math:`P^T_{ij} = \exp(l_{ij} - \mathrm{lse}_j)` since l is symmetric.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float) -> Tensor:
        rows = rows.contiguous()
        count, features = rows.shape
        plan = _plan(rows, backward=False)
        lse, loss = (torch.empty(size, device=rows.device, dtype=torch.float32) for size in (count, 1))
        # For each row and split of the columns: the maximum, the sum of exponentials less the maximum, and the twin's logit.
        partial = torch.empty(3, plan.splits, count, device=rows.device, dtype=torch.float32)
        reduce[(blocks(count, plan.rows), plan.splits)](
            rows, partial, count, blocks(blocks(count, plan.columns), plan.splits), 1 / temperature,
            F=features, ROWS=plan.rows, COLUMNS=plan.columns, DEPTH=plan.depth, PRECISION=PRECISION,
            WIDE=not rows.is_cuda, num_warps=plan.warps, num_stages=plan.stages,
        )  # fmt: skip
        splits = 1 << (plan.splits - 1).bit_length()
        each = min(power(count), 16384 // splits)
        loss_of[(1,)](partial, lse, loss, count, plan.splits, SPLITS=splits, ROWS=each, num_warps=max(1, splits * each // 1024))
        ctx.save_for_backward(rows, lse)
        ctx.temperature = temperature
        return loss[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, lse = ctx.saved_tensors
        count, features = rows.shape
        plan = _plan(rows, backward=True)
        partial = torch.empty(plan.splits, count, features, device=rows.device, dtype=torch.float32)
        attract[(blocks(count, plan.rows), plan.splits, blocks(features, plan.width))](
            rows, lse, partial, count, blocks(blocks(count, plan.columns), plan.splits), 1 / ctx.temperature,
            F=features, ROWS=plan.rows, COLUMNS=plan.columns, DEPTH=plan.depth, WIDTH=plan.width, PRECISION=PRECISION,
            WIDE=not rows.is_cuda, num_warps=plan.warps, num_stages=plan.stages,
        )  # fmt: skip
        return _gradient(rows, partial, grads[0], ctx.temperature), None


class _StoredNTXent(torch.autograd.Function):
    """The same for few rows in bfloat16: similarities, and P + P^T, are stored, and multiplied by cuBLAS."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, temperature: float) -> Tensor:
        rows = rows.contiguous()
        count, block = len(rows), power(len(rows))
        similarities = _product(rows, rows.T)
        lse, excess = (torch.empty(count, device=rows.device, dtype=torch.float32) for _ in range(2))
        reduce_stored[(count,)](similarities, lse, excess, count, 1 / temperature, BLOCK=block, num_warps=_warps(block))
        ctx.save_for_backward(rows, similarities, lse)
        ctx.temperature = temperature
        return excess.mean()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows, similarities, lse = ctx.saved_tensors
        count, block = len(rows), power(len(rows))
        both = torch.empty_like(similarities, dtype=rows.dtype)
        softmaxes[(count,)](similarities, lse, both, count, 1 / ctx.temperature, BLOCK=block, num_warps=_warps(block))
        return _gradient(rows, _product(both, rows)[None], grads[0], ctx.temperature), None


def _product(a: Tensor, b: Tensor) -> Tensor:
    """In float32: a CPU, which interprets kernels, would round to bfloat16."""
    return product(a, b) if a.is_cuda else a.float() @ b.float()


def _warps(block: int) -> int:
    return max(1, block // 512)


def _gradient(rows: Tensor, partial: Tensor, slope: Tensor, temperature: float) -> Tensor:
    """The gradient of rows from the parts of (P + P^T) R, [parts, 2m, F]."""
    count, features = rows.shape
    out = torch.empty_like(rows)
    block = min(power(features), 1024)
    gradient[(count, blocks(features, block))](
        rows, partial, slope, out, count, 1 / (count * temperature),
        F=features, SPLITS=len(partial), BLOCK=block, num_warps=max(1, block // 256),
    )  # fmt: skip
    return out

"""Adam's step of one tensor, in one pass over it."""

from __future__ import annotations

import math

import triton.language as tl
from torch import Tensor

from clnr.engine.dense import ADAM_BETAS, ADAM_EPSILON
from clnr.engine.gpu.triton.jit import blocks, kernel

_NUMBERS_PER_BLOCK = 1024


def adam(
    parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: Tensor, rate: Tensor, decay: float, decoupled: bool
) -> None:
    """``Dense.adam`` of one parameter; all tensors are float32 and contiguous but ``gradient``, which may be any."""
    count = parameter.numel()
    _adam[(blocks(count, _NUMBERS_PER_BLOCK),)](
        parameter, gradient.contiguous(), mean, square, step, rate, count, decay,
        LOG_1=math.log(ADAM_BETAS[0]), LOG_2=math.log(ADAM_BETAS[1]), BETA_1=ADAM_BETAS[0], BETA_2=ADAM_BETAS[1],
        EPSILON=ADAM_EPSILON, DECOUPLED=decoupled, BLOCK=_NUMBERS_PER_BLOCK, num_warps=4,
    )  # fmt: skip


@kernel("count", "decay")
def _adam(
    parameter,
    gradient,
    mean,
    square,
    step,
    rate,
    count,
    decay,
    LOG_1: tl.constexpr,
    LOG_2: tl.constexpr,
    BETA_1: tl.constexpr,
    BETA_2: tl.constexpr,
    EPSILON: tl.constexpr,
    DECOUPLED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    # In float64: in float32 the first corrections would be off by some 1e-4.
    steps = tl.load(step).to(tl.float64)
    pace = (tl.load(rate).to(tl.float64) / (1.0 - tl.exp(steps * LOG_1))).to(tl.float32)
    root = tl.sqrt(1.0 - tl.exp(steps * LOG_2)).to(tl.float32)
    p = tl.load(parameter + at, mask=inside, other=0)
    g = tl.load(gradient + at, mask=inside, other=0).to(tl.float32)
    if DECOUPLED:
        p -= tl.load(rate).to(tl.float32) * decay * p
    else:
        g += decay * p
    m = tl.load(mean + at, mask=inside, other=0)
    m += (g - m) * (1 - BETA_1)
    v = tl.load(square + at, mask=inside, other=0) * BETA_2 + (1 - BETA_2) * g * g
    p -= pace * m / (tl.sqrt(v) / root + EPSILON)
    tl.store(parameter + at, p, mask=inside)
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, v, mask=inside)

"""Draws of ``clnr.rng`` inside a kernel: the same 32-bit words, to the bit."""

from __future__ import annotations

from typing import NamedTuple

import triton.language as tl
from torch import Tensor

from clnr.engine.gpu.triton.jit import kernel
from clnr.rng import Key

_HALF_OF_WORDS, _NUMBER_OF_WORDS = 1 << 31, 1 << 32


class DropRule(NamedTuple):
    """What is dropped, as kernel arguments; ``last`` is the largest draw that is dropped.

    A key's ``word``, where it has one (an int64 on the device), is read by the kernel, so that a captured CUDA graph draws
    anew as that counter moves.
    """

    a: int
    b: int
    word: Tensor | None
    last: int
    thresholds: Tensor | None
    drops: bool


NOTHING_DROPPED = DropRule(0, 0, None, 0, None, False)


def to_drop_rule(key: Key, threshold: int | Tensor) -> DropRule:
    """The rule that drops draws below a threshold, or below that of each, in numbers that fit signed 32-bit arguments.

    A threshold of 2^32 does not fit, hence ``last``, one less. A threshold of 0 drops nothing.
    """
    if isinstance(threshold, int) and threshold <= 0:
        return NOTHING_DROPPED
    if isinstance(threshold, Tensor):
        return DropRule(signed(key.a), signed(key.b), key.word, 0, threshold.contiguous(), True)
    return DropRule(signed(key.a), signed(key.b), key.word, signed(threshold - 1), None, True)


def signed(word: int) -> int:
    """A 32-bit word as the signed number with the same bits."""
    return word - _NUMBER_OF_WORDS if word >= _HALF_OF_WORDS else word


@kernel()
def mix(x):
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@kernel()
def open_key(a, b, word):
    """A key's two words for hashing, after its ``word`` was read and mixed in, where it has one."""
    a = a.to(tl.uint32)
    b = b.to(tl.uint32)
    if word is not None:
        a = mix(a ^ tl.load(word).to(tl.uint32))
        b = mix(a + b)
    return a, b


@kernel()
def draw(a, b, i, j):
    return mix((mix(i.to(tl.uint32) ^ a) + j.to(tl.uint32)) ^ b)


@kernel()
def survives(word, last, thresholds, place, valid):
    """Whether a draw is kept: against one threshold, or that of its place."""
    if thresholds is not None:
        return word.to(tl.int64) >= tl.load(thresholds + place, mask=valid, other=0)
    return word > last.to(tl.uint32)

"""Draws of ``clnr.rng`` inside a kernel: the same 32-bit words, to the bit."""

from __future__ import annotations

from typing import NamedTuple

import triton.language as tl
from torch import Tensor

from clnr.engine.triton.jit import kernel
from clnr.rng import Key

_HALF, _RANGE = 1 << 31, 1 << 32


class Dropped(NamedTuple):
    """Entries dropped where ``draw < threshold``: one threshold, at most 2^32, or an int64 one for each entry.

    A word that waits in the key (one int64 on the device) is read by the kernel, so that a recorded graph of kernels draws anew
    as that counter moves. With ``pairs``, entries (i, j) and (j, i) go together.
    """

    key: Key
    threshold: int | Tensor
    pairs: bool = False


class Rule(NamedTuple):
    """A rule of dropping as kernels take it; ``last`` is the largest draw that is dropped."""

    a: int
    b: int
    word: Tensor | None
    last: int
    thresholds: Tensor | None
    drops: bool


_NOTHING = Rule(0, 0, None, 0, None, False)


def rule(key: Key | None, threshold: int | Tensor) -> Rule:
    """What drops below a threshold, in words that fit signed 32-bit arguments, whatever their values.

    A threshold of 2^32 does not fit, hence the draw just below it; one of 0 has none below, but drops nothing at all.
    """
    if key is None or (isinstance(threshold, int) and threshold <= 0):
        return _NOTHING
    if isinstance(threshold, Tensor):
        return Rule(signed(key.a), signed(key.b), key.word, 0, threshold.contiguous(), True)
    return Rule(signed(key.a), signed(key.b), key.word, signed(threshold - 1), None, True)


def signed(word: int) -> int:
    """The 32-bit word as a signed number of the same bits."""
    return word - _RANGE if word >= _HALF else word


@kernel()
def mix(x: tl.tensor) -> tl.tensor:
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@kernel()
def opened(a: tl.tensor, b: tl.tensor, word: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """A key's words as they are hashed with, one more word of the path read where there is one."""
    a = a.to(tl.uint32)
    b = b.to(tl.uint32)
    if word is not None:
        a = mix(a ^ tl.load(word).to(tl.uint32))
        b = mix(a + b)
    return a, b


@kernel()
def draw(a: tl.tensor, b: tl.tensor, i: tl.tensor, j: tl.tensor) -> tl.tensor:
    return mix((mix(i.to(tl.uint32) ^ a) + j.to(tl.uint32)) ^ b)


@kernel()
def survives(word: tl.tensor, last: tl.tensor, thresholds: tl.tensor, place: tl.tensor, there: tl.tensor) -> tl.tensor:
    """Whether a draw keeps what it was made for: against one threshold, or that of its place."""
    if thresholds is not None:
        return word.to(tl.int64) >= tl.load(thresholds + place, mask=there, other=0)
    return word > last.to(tl.uint32)

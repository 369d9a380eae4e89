"""Stateless randomness: every draw is a pure function of (seed, stream, epoch, view, index).

Randomness is counter-based: a draw is a hash of 32-bit integers, and no generator has a state. So the same seed gives the
same bits on a CPU, on a GPU, in a kernel that never stores a mask, in two workers that share an edge, and after a resume. The
formulas use only ``^ + * & >> %`` and therefore work alike on Python integers, NumPy int64 arrays and torch int64 tensors.

The mixer is the two-multiply "lowbias32" function found by C. Wellons' hash prospector (2018); the permutation is the
generalised Feistel cipher of Black and Rogaway, "Ciphers with arbitrary finite domains" (2002).
"""

from __future__ import annotations

import math
import zlib
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Integer = TypeVar("Integer", int, "Tensor", Any)

_WORD = 0xFFFFFFFF
_RANGE = 1 << 32
_ROUNDS = 6
_BLOCK = 32
_TABLE = 1 << 23


class Key(NamedTuple):
    """Two 32-bit words that name one stream of draws; either integers or tensors that broadcast.

    A last ``word`` of the stream's path that is a tensor, such as a counter on a device, is mixed in later: by ``settled``, or
    by a kernel that reads the counter itself.
    """

    a: Any
    b: Any
    word: Tensor | None = None


def mix(x: Integer) -> Integer:
    """A bijection of 32-bit words in which each input bit flips each output bit about half of the time."""
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & _WORD
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & _WORD
    return x ^ (x >> 16)


def key(seed: int, *path: str | int | Tensor) -> Key:
    """The key of the stream ``path`` under ``seed``; words of the path are names, numbers or tensors of numbers."""
    low, high = seed & _WORD, (seed >> 32) & _WORD
    a = mix((mix(low ^ 0x243F6A88) + high) & _WORD)
    return branch(Key(a, mix((a + low) & _WORD)), *path)


def branch(key: Key, *path: str | int | Tensor) -> Key:
    """The key of a stream below another's."""
    for word in path:
        a, b, _ = settled(key)
        if isinstance(word, str | int | Integral):
            key = _mixed(a, b, zlib.crc32(word.encode()) if isinstance(word, str) else word)
        else:
            key = Key(a, b, word)
    return key


def settled(key: Key) -> Key:
    """The same key with no word waiting."""
    return key if key.word is None else _mixed(*key)


def _mixed(a: Any, b: Any, word: Any) -> Key:
    a = mix(a ^ word)
    return Key(a, mix((a + b) & _WORD))


def draw(key: Key, i: Integer, j: Any = 0) -> Integer:
    """A uniform 32-bit word for the index ``i``, or for the pair ``(i, j)``."""
    key = settled(key)
    return mix(((mix(i ^ key.a) + j) & _WORD) ^ key.b)


def keep(key: Key, rate: float | Tensor, i: Tensor, j: Tensor | int = 0) -> Tensor:
    """True with probability ``1 - rate``, independently for each index or pair: an integer comparison, hence exact.

    A tensor of rates gives each index or pair its own.
    """
    return draw(key, i, j) >= threshold(rate)


def threshold(rate: float | Tensor) -> int | Tensor:
    """What a draw must reach to be kept."""
    return int(rate * _RANGE) if isinstance(rate, float | Real) else (rate.double() * _RANGE).long()


def uniform(key: Key, count: int, device: torch.device | None = None) -> Tensor:
    """``count`` float32 numbers in [0, 1), each a multiple of 2^-24."""
    import torch

    word = draw(key, torch.arange(count, device=device))
    return (word >> 8).to(torch.float32) * 2.0**-24


def normal(key: Key, count: int, device: torch.device | None = None) -> Tensor:
    """``count`` float32 numbers of the standard normal distribution, by Box and Muller's formula (1958)."""
    import torch

    radius = (-2 * torch.log1p(-uniform(branch(key, "radius"), count, device))).sqrt()
    return radius * torch.cos(2 * math.pi * uniform(branch(key, "angle"), count, device))


def shuffle(key: Key, total: int, device: torch.device | None = None) -> Tensor:
    """All of ``0 .. total - 1`` in hashed order. Where only a few are wanted, ``permute`` finds them without a sort."""
    import torch

    return draw(key, torch.arange(total, device=device)).argsort(stable=True)


def permute(key: Key, position: Tensor, total: int) -> Tensor:
    """The images of ``position`` under a keyed permutation of ``0 .. total - 1``, without sorting or storing it.

    A Feistel network on Z_a x Z_b, with ``a b`` just above ``total``, is walked until it lands below ``total``. One step
    lands outside with probability below ``1 / sqrt(total)``, so the walk's length is fixed beforehand at what leaves a
    chance of 2^-64 per element: no data-dependent loop, hence nothing that waits for a device.
    """
    import torch

    a = math.isqrt(max(total - 1, 0)) + 1
    b = -(-total // a)
    outside = a * b - total
    walk = min(outside + 1, math.ceil(64 / math.log2(a * b / outside))) if outside else 1
    x = _feistel(key, position, a, b)
    for _ in range(walk - 1):
        x = torch.where(x < total, x, _feistel(key, x, a, b))
    return x % total


def _feistel(key: Key, x: Tensor, a: int, b: int) -> Tensor:
    left, right = x // b, x % b
    for step in range(0, _ROUNDS, 2):
        left = (left + draw(key, right, step)) % a
        right = (right + draw(key, left, step + 1)) % b
    return left * b + right


Kept = dict[tuple[Any, ...], "Tensor"]
"""The draws of many epochs that a training keeps, and that go with it."""


def sample(
    seed: int, epoch: int | Tensor, epochs: int, total: int, count: int, device: torch.device, kept: Kept | None = None
) -> Tensor:
    """``count`` distinct indices below ``total`` for one of several epochs, in hashed order; the epoch may be a counter."""
    import torch

    if kept is not None and isinstance(epoch, int):
        size = max(1, min(_BLOCK, _TABLE // count))
        block = epoch // size
        # The one before may still be asked for, by a step that comes before one that was read ahead.
        kept.pop((seed, block - 2, size, total, count, device), None)
        return _samples(seed, block, size, total, count, device, kept)[epoch % size]
    table = None if kept is None else samples(seed, epochs, total, count, device, kept)
    if table is None:
        return permute(key(seed, "nodes", epoch), torch.arange(count, device=device), total)
    assert isinstance(epoch, torch.Tensor)
    return table.index_select(0, epoch.reshape(1))[0]


def samples(seed: int, epochs: int, total: int, count: int, device: torch.device, kept: Kept) -> Tensor | None:
    """``sample`` of all epochs, [epochs, count]; None where these are too many to keep. The same tensor at each call."""
    return None if epochs * count > _TABLE else _samples(seed, 0, epochs, total, count, device, kept)


def _samples(seed: int, block: int, size: int, total: int, count: int, device: torch.device, kept: Kept) -> Tensor:
    # Many epochs at a time: hundreds of tiny operations an epoch would cost more than the training step on a GPU.
    import torch

    name = (seed, block, size, total, count, device)
    if name not in kept:
        epochs = torch.arange(block * size, (block + 1) * size, device=device)[:, None]
        nodes = torch.arange(count, device=device)[None, :]
        kept[name] = torch.cat([permute(key(seed, "nodes", part), nodes, total) for part in epochs.split(1024)])
    return kept[name]

"""Numbers that follow from a node's id alone: a hash, and random vectors."""

from __future__ import annotations

import hashlib
import weakref

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from clnr import rng
from clnr.graph.csr import Array

RANDOM = 128
# So many rows at a time are drawn.
_ROWS = 1 << 14
_BITS = 16


def random_features(ids: Array, width: int = RANDOM, device: torch.device | None = None) -> Tensor:
    """Normal random numbers that follow from each id alone; with 128, a row is about 1 long.

    Each is one of 65,536 equally likely quantiles, chosen by 16 bits of a hash: of the same word for a column of the first
    half, and for one of the second.
    """
    half = (width + 1) // 2
    quantiles = torch.tensor(ndtri((np.arange(1 << _BITS) + 0.5) / (1 << _BITS)) / np.sqrt(RANDOM), dtype=torch.float32)
    quantiles, column = quantiles.to(device), torch.arange(half, device=device)
    words = torch.from_numpy(id_words(ids)).to(device)
    key, out = rng.key(0, "mark"), torch.empty(len(words), 2, half, device=device)
    for some, rows in zip(words.split(_ROWS), out.split(_ROWS), strict=True):
        drawn = rng.draw(key, (some & 0xFFFFFFFF)[:, None], (some >> 32)[:, None] + column)
        rows[:, 0] = quantiles[drawn >> _BITS]
        rows[:, 1] = quantiles[drawn & (1 << _BITS) - 1]
    return out.view(len(words), 2 * half)[:, :width]


def id_words(ids: Array) -> Array:
    """A 64-bit hash of each id; those of the last ids that were asked for are kept, as several methods ask for them."""
    global _last
    if _last is None or _last[0]() is not ids:
        texts = (str(each).encode(errors="surrogatepass") for each in ids.tolist())
        digests = b"".join([hashlib.blake2b(text, digest_size=8).digest() for text in texts])
        _last = weakref.ref(ids), np.frombuffer(digests, "<i8").astype(np.int64)
    return _last[1]


_last: tuple[weakref.ref[Array], Array] | None = None

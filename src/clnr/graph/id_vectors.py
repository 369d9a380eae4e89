"""Numbers that follow from a node's id alone: a hash, and random vectors."""

from __future__ import annotations

import hashlib

import numpy as np
from scipy.special import ndtri

from clnr.graph.csr import Array

RANDOM = 128


def random_features(ids: Array, width: int = RANDOM) -> Array:
    """Normal random numbers that follow from each id alone, an even number of them; with 128, a row is about 1 long.

    Each is one of 65,536 equally likely quantiles, chosen by 16 bits of a hash.
    """
    from clnr import rng  # It imports torch, which takes seconds.

    words = id_words(ids).view(np.uint32).reshape(-1, 2)
    column = np.arange(width // 2, dtype=np.uint32)
    drawn: Array = rng.draw(rng.key(0, "mark"), words[:, :1], words[:, 1:] + column)
    return np.concatenate([_QUANTILES[drawn >> 16], _QUANTILES[drawn & 0xFFFF]], 1)


def id_words(ids: Array) -> Array:
    """A 64-bit hash of each id."""
    texts = (str(each).encode(errors="surrogatepass") for each in ids.tolist())
    digests = b"".join([hashlib.blake2b(text, digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, "<i8").astype(np.int64)


_QUANTILES = (ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)) / np.sqrt(RANDOM)).astype(np.float32)

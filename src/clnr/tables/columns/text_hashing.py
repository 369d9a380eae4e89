"""The words of many texts at once, and CRC-32 of texts and words.

scikit-learn's vectorizers are not used: they have another hash, so saved encoders would give other features, and they are
several times slower on Arrow arrays.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from clnr.graph.csr import Array

Split = Callable[[Any], tuple[Array, Array, Any]]
"""What ``split_words`` does, with words or with something else."""

_WORD = re.compile(r"\w+")
_LONG_BYTES = 64


def _crc_table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1)
    return table


_CRC = _crc_table()
_BYTES = np.arange(256)
_ASCII_WORD = np.array([bool(_WORD.fullmatch(chr(each))) and each < 128 for each in _BYTES])
_LOWER = np.array([ord(chr(each).lower()) if each < 128 else each for each in _BYTES], np.uint8)
# Characters that may affect how a letter next to them is lower-cased: a Greek sigma has another form at the end of a word, and
# marks such as an apostrophe do not end one. All other ASCII bytes split a text into independent pieces.
_PIECE = _ASCII_WORD | (_BYTES >= 128) | np.isin(_BYTES, np.frombuffer(b"'.:^`", np.uint8))


def text_buckets(texts: Any, width: int) -> Array:
    """The bucket of each text of an Arrow array without nulls."""
    data, start = _bytes(texts)
    return _crc32(data, start[:-1], np.diff(start)) % width


def split_words(texts: Any) -> tuple[Array, Array, Any]:
    """The words of an Arrow array of texts without nulls.

    Words are matches of Python's ``\\w+`` in the lower-cased text. ASCII words are found all at once; pieces with other letters
    are left to Python, each distinct piece once.

    Returns:
        For each word, in the order of texts, the index of its text and its index in the last array; all distinct words, as an
        Arrow array.
    """
    data, start = _bytes(texts)
    plain, rest = _ASCII_WORD[data], None
    if (data >= 128).any():
        first, length = _runs(_PIECE[data], start)
        other = np.add.reduceat(data >= 128, first, dtype=np.int64)
        # Each sum extends to the start of the next run, over bytes that are all ASCII.
        rest = first[other > 0], length[other > 0]
        plain[_spans(*rest)] = False
    first, length = _runs(plain, start)
    encoded = _strings(_LOWER[data[plain]], length).dictionary_encode()
    word, words = encoded.indices.to_numpy(), encoded.dictionary
    if rest is not None:
        first, word, words = _with_pieces(first, word, words, *_by_python(data, *rest))
    counts = np.diff(np.searchsorted(first, start))
    return np.repeat(np.arange(len(counts)), counts), word, words


def _with_pieces(first: Array, word: Array, words: Any, places: Array, more: Array, others: Any) -> tuple[Array, Array, Any]:
    """The words of both, by where they start."""
    import pyarrow as pa

    both = pa.concat_arrays([words, others]).dictionary_encode()
    word = both.indices.to_numpy()[np.concatenate([word, len(words) + more])]
    first = np.concatenate([first, places])
    order = np.argsort(first, kind="stable")
    return first[order], word[order], both.dictionary


def _by_python(data: Array, first: Array, length: Array) -> tuple[Array, Array, Any]:
    """Where the piece of each word starts, the index of the word in the last array, and the words."""
    import pyarrow as pa

    pieces = _strings(data[_spans(first, length)], length).dictionary_encode()
    words = [_WORD.findall(piece.lower()) for piece in pieces.dictionary.to_pylist()]
    counts = np.array([len(piece) for piece in words], np.int64)
    starts = np.cumsum(counts) - counts
    which = pieces.indices.to_numpy()
    flat = pa.array([word for piece in words for word in piece], pa.large_string())
    return np.repeat(first, counts[which]), _spans(starts[which], counts[which]), flat


def _strings(data: Array, length: Array) -> Any:
    """An Arrow array of texts of some lengths, whose bytes stand one after the other."""
    import pyarrow as pa

    ends = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    return pa.Array.from_buffers(pa.large_string(), len(length), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _bytes(texts: Any) -> tuple[Array, Array]:
    """The bytes of an Arrow array of text, and the offsets of each text, as Arrow has them."""
    import pyarrow as pa

    large = texts.cast(pa.large_string())
    _, starts, data = large.buffers()
    start = (
        np.frombuffer(starts, np.int64)[large.offset : large.offset + len(large) + 1] if len(large) else np.zeros(1, np.int64)
    )
    whole = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return whole[start[0] : start[-1]], start - start[0]


def _runs(inside: Array, start: Array) -> tuple[Array, Array]:
    """The starts and lengths of runs of True; a run ends with its text."""
    fresh, last = inside.copy(), inside.copy()
    fresh[1:] &= ~inside[:-1]
    last[:-1] &= ~inside[1:]
    edges = start[:-1][start[:-1] < start[1:]]
    fresh[edges] = inside[edges]
    last[edges[1:] - 1] = inside[edges[1:] - 1]
    first = np.flatnonzero(fresh)
    return first, np.flatnonzero(last) + 1 - first


def _spans(first: Array, length: Array) -> Array:
    """All positions within some spans, in order."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(first - (ends - length), length)


def _crc32(data: Array, first: Array, length: Array) -> Array:
    """CRC-32 of each span of bytes: byte by byte for all spans at once, and one by one for the few long ones."""
    # Longest first; lengths are cut off and stored as bytes, which NumPy sorts fast.
    order = np.argsort(_LONG_BYTES - np.minimum(length, _LONG_BYTES).astype(np.uint8), kind="stable")
    begin, left = first[order], length[order]
    counts = np.cumsum(np.bincount(np.minimum(length, _LONG_BYTES), minlength=_LONG_BYTES + 1)[::-1])[::-1]
    crc = np.full(len(order), 0xFFFFFFFF, np.uint32)
    for k in range(_LONG_BYTES):
        some = slice(0, int(counts[k + 1]))
        part = crc[some]
        crc[some] = _CRC[(part ^ data[begin[some] + k]) & 0xFF] ^ (part >> 8)
    crc = ~crc
    view = data.data
    for k in range(int(counts[_LONG_BYTES])):
        crc[k] = zlib.crc32(view[begin[k] : begin[k] + left[k]])
    checksums = np.empty(len(order), np.int64)
    checksums[order] = crc
    return checksums

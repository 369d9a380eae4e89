"""The words or tags of many texts at once: split, hashed by CRC-32, and weighted the more the rarer they are.

scikit-learn's vectorizers are not used: they have another hash, so saved encoders would give other features, and they are
several times slower on Arrow arrays.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.graph.csr import Array

Split = Callable[[Any], tuple[Array, Array, Any]]
"""What ``split_words`` does, with words or with something else."""

_NEARLY_ALL = 0.95
_WORD = re.compile(r"\w+")
_BYTES = np.arange(256)
_ASCII_WORD = np.array([bool(_WORD.fullmatch(chr(each))) and each < 128 for each in _BYTES])
_LOWER = np.array([ord(chr(each).lower()) if each < 128 else each for each in _BYTES], np.uint8)
# Characters that may affect how a letter next to them is lower-cased: a Greek sigma has another form at the end of a word, and
# marks such as an apostrophe do not end one. All other ASCII bytes split a text into independent pieces.
_PIECE = _ASCII_WORD | (_BYTES >= 128) | np.isin(_BYTES, np.frombuffer(b"'.:^`", np.uint8))


def text_buckets(texts: Any, width: int) -> Array:
    """The bucket of each text of an Arrow array without nulls, by its CRC-32; each distinct text is hashed once."""
    import pyarrow as pa

    encoded = texts.dictionary_encode()
    distinct = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    checksums = np.fromiter(map(zlib.crc32, distinct), np.int64, len(distinct))
    return checksums[encoded.indices.to_numpy()] % width


def split_words(texts: Any) -> tuple[Array, Array, Any]:
    """For each word of an Arrow array of texts, in their order, the index of its text and that among all distinct words; these.

    Words are matches of Python's ``\\w+`` in the lower-cased text. ASCII words are found all at once; pieces with other letters
    are left to Python, each distinct piece once.
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


def split_tags(lists: Any) -> tuple[Array, Array, Any]:
    """The tags of an Arrow array of lists without nulls, as ``split_words`` has the words of texts."""
    import pyarrow.compute as pc

    encoded = lists.flatten().dictionary_encode()
    return pc.list_parent_indices(lists).to_numpy(), encoded.indices.to_numpy(), encoded.dictionary


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
    start = np.zeros(1, np.int64)
    if len(large):
        start = np.frombuffer(starts, np.int64)[large.offset : large.offset + len(large) + 1]
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


class Vocabulary(NamedTuple):
    """Words that have a feature each; the others, if there are any, share buckets.

    Attributes:
        words: In order.
        weights: Of each word, then of each bucket.
        distinct: Number of distinct words, of both sorts.
        shared: How many words a text has, on average, that some others have, but not nearly all, as in 'Patient 7'.
    """

    words: tuple[str, ...]
    weights: tuple[float, ...]
    distinct: int
    shared: float


def learn_vocabulary(chunks: Iterable[Any], bound: int, buckets: int, split: Split = split_words) -> Vocabulary:
    """All words of some texts; or, if there are more than a bound, the most frequent, and the others hashed into buckets.

    A word is as frequent as there are texts with it; of equally frequent words, the first in order are kept. Beyond the bound,
    words of a single text are never kept: they say nothing that two texts share. A bucket counts as a word that is in the texts
    of each of its words. It does not matter in which order or chunks the texts come; nulls are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    words, counts, texts = _document_frequencies(chunks, split)
    kept = np.arange(len(words))
    others = np.empty(0)
    if len(words) > bound:
        kept = np.flatnonzero(counts > 1)
        frequent = pa.table({"count": counts[kept], "word": words.take(pa.array(kept))})
        order = pc.sort_indices(frequent, sort_keys=[("count", "descending"), ("word", "ascending")])
        kept = kept[order.to_numpy()[:bound]]
        rest = np.delete(np.arange(len(words)), kept)
        bucket = text_buckets(words.take(pa.array(rest)), buckets)
        others = np.minimum(texts, np.bincount(bucket, counts[rest], buckets))
    kept_words = words.take(pa.array(kept))
    order = pc.sort_indices(kept_words).to_numpy()
    frequencies = np.concatenate([counts[kept][order], others])
    # As scikit-learn's TfidfVectorizer(smooth_idf=True).
    weights = np.log((1 + texts) / (1 + frequencies)) + 1
    shared = float(counts[(counts > 1) & (counts <= _NEARLY_ALL * texts)].sum() / max(1, texts))
    return Vocabulary(tuple(kept_words.take(pa.array(order)).to_pylist()), tuple(weights.tolist()), len(words), shared)


def _document_frequencies(chunks: Iterable[Any], split: Split) -> tuple[Any, Array, int]:
    """All distinct words, in how many texts each is, and the number of texts."""
    import pyarrow as pa

    parts, total = [], 0
    for chunk in chunks:
        texts = chunk.drop_null()
        text, word, words = split(texts)
        pairs = sp.coo_array((np.ones(len(word), np.int32), (text, word)), shape=(len(texts), len(words))).tocsr()
        parts.append(pa.table({"word": words, "count": np.bincount(pairs.indices, minlength=len(words))}))
        total += len(texts)
    merged = pa.concat_tables(parts).group_by("word").aggregate([("count", "sum")])
    return merged["word"].combine_chunks(), merged["count_sum"].to_numpy(), total

"""The words of a column of text, each with a weight that is larger the rarer it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from clnr.graph.csr import Array
from clnr.graph.rarity import idf
from clnr.tables.columns.text_hashing import Split, split_words, text_buckets


class Vocabulary(NamedTuple):
    """Words that have a feature each; the others, if there are any, share buckets.

    Attributes:
        words: In order.
        weights: Of each word, then of each bucket.
        distinct: Number of distinct words, of both sorts.
    """

    words: tuple[str, ...]
    weights: tuple[float, ...]
    distinct: int


def learn_vocabulary(chunks: Iterable[Any], bound: int, buckets: int, split: Split = split_words) -> Vocabulary:
    """All words of some texts; or, if there are more than a bound, the most frequent, and the others hashed into buckets.

    A word is as frequent as there are texts with it; of equally frequent words, the first in order are kept. Beyond the bound,
    words of a single text are never kept: they say nothing that two texts share. A bucket counts as a word that is in the texts
    of each of its words. It does not matter in which order or chunks the texts come.

    Args:
        chunks: Arrow arrays of texts; nulls are left out.
        bound: The most words to keep.
        buckets: Number of buckets.
        split: How a text is split into words.
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
    weights = idf(np.concatenate([counts[kept][order], others]), texts)
    return Vocabulary(tuple(kept_words.take(pa.array(order)).to_pylist()), tuple(weights.tolist()), len(words))


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

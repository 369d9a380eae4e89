"""The built-in ``toy``, so that a first run needs no download.

It is a small citation graph: a degree-corrected block model whose papers mostly cite within their field, with a bag of
words per paper in which words of the field are a little more likely. It is integer arithmetic on the hash of ``rng``, so every
machine makes the same graph to the bit.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from clnr import rng
from clnr.graph import Graph, Split
from clnr.graph.csr import Array

NUM_NODES = 2400
NUM_FIELDS = 6
NUM_CITATIONS = 5400
NUM_WORDS = 720
WORDS_PER_PAPER = 14
WITHIN_FIELD_PERCENT = 70
TOPICAL_PERCENT = 30
_SEED = 2026


def toy() -> Graph:
    """A fixed graph of 2,400 nodes in 6 classes, split like Planetoid: 20 per class, 500, 1,000."""
    nodes = np.arange(NUM_NODES)
    field = _draw("field", nodes) % NUM_FIELDS
    # Weights 1 / (1 + r) for r in 0 .. 39: a heavy tail, as in citation counts.
    weight = 1_000_000 // (1 + _draw("degree", nodes) % 40)

    paper = np.arange(NUM_CITATIONS)
    citing = _pick(weight, _draw("citing", paper))
    within = _draw("within", paper) % 100 < WITHIN_FIELD_PERCENT
    anyone = _pick(weight, _draw("cited", paper))
    fellow = np.empty(NUM_CITATIONS, np.int64)
    for f in range(NUM_FIELDS):
        mine, members = field[citing] == f, np.flatnonzero(field == f)
        fellow[mine] = members[_pick(weight[members], _draw("fellow", paper[mine]))]
    cited = np.where(within, fellow, anyone)
    distinct = citing != cited

    token = np.arange(NUM_NODES * WORDS_PER_PAPER)
    author = token // WORDS_PER_PAPER
    common = _pick(1_000_000 // (10 + np.arange(NUM_WORDS)), _draw("word", token))
    words_per_field = NUM_WORDS // NUM_FIELDS
    topical = field[author] + NUM_FIELDS * _pick(1_000_000 // (10 + np.arange(words_per_field)), _draw("topic", token))
    word = np.where(_draw("topical", token) % 100 < TOPICAL_PERCENT, topical, common)
    bag = sp.coo_array((np.ones(len(token), np.float32), (author, word)), shape=(NUM_NODES, NUM_WORDS)).tocsr()
    bag.sum_duplicates()
    bag.data[:] = 1

    order = rng.permute(rng.key(_SEED, "split"), torch.arange(NUM_NODES), NUM_NODES).numpy()
    train = np.sort(np.concatenate([order[field[order] == f][:20] for f in range(NUM_FIELDS)]))
    rest = order[~np.isin(order, train)]
    split = Split(train, np.sort(rest[:500]), np.sort(rest[500:1500]))
    return Graph.from_edges(citing[distinct], cited[distinct], bag, undirected=True, labels=field, split=split, name="toy")


def _draw(stream: str, index: Array) -> Array:
    return rng.draw(rng.key(_SEED, stream), torch.from_numpy(index)).numpy()


def _pick(weight: Array, word: Array) -> Array:
    """Indices in proportion to integer weights, from uniform 32-bit words."""
    steps = np.cumsum(weight)
    return np.searchsorted(steps, (word * steps[-1]) >> 32, side="right")

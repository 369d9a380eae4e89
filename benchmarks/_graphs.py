"""Random graphs of any size, to measure speed and memory on."""

from __future__ import annotations

import numpy as np

from clnr.graph import Graph


def shaped(nodes: int, pairs: int, features: int, classes: int = 40, seed: int = 0) -> Graph:
    """A random graph of a given size, to measure speed and memory; there is nothing in it to learn.

    One end of each pair is drawn by a power law, the other uniformly: with the size of ogbn-arxiv (169,343 nodes, 1,157,799
    pairs) the largest degree is about 12,000, as in ogbn-arxiv.
    """
    random = np.random.default_rng(seed)
    law = np.cumsum(np.arange(1.0, nodes + 1) ** -0.73)
    drawn = int(1.03 * pairs)
    source = random.permutation(nodes)[np.searchsorted(law / law[-1], random.random(drawn))]
    target = random.integers(0, nodes, drawn)
    distinct = source != target
    x = random.standard_normal((nodes, features), dtype=np.float32)
    labels = random.integers(0, classes, nodes)
    return Graph.from_edges(source[distinct], target[distinct], x, undirected=True, labels=labels, name="generated")

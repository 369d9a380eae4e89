"""Training, validation and test nodes."""

from __future__ import annotations

import numpy as np
import torch

from clnr import rng
from clnr.errors import DataError
from clnr.graph import Graph, Split


def split_of(graph: Graph, seed: int) -> Split:
    """The graph's published split; if there is none, a random one per seed."""
    split = graph.split if graph.split is not None else random_split(graph, seed)
    for part, nodes in split._asdict().items():
        if not len(nodes):
            raise DataError(f"{graph.name} has no {part} nodes in its split")
        if graph.labels is not None and (graph.labels[nodes] < 0).any():
            raise DataError(f"{graph.name} has {part} nodes without a label in its split")
    return split


def random_split(graph: Graph, seed: int) -> Split:
    """One tenth of the labelled nodes for training, one tenth for validation, the rest for testing: the paper's 1:1:8.

    Of fewer than 1,000, 100 train and 50 validate, or three fifths and a fifth of them where that is less.
    """
    labels = graph.labels
    if labels is None:
        raise DataError(f"{graph.name} has no labels, so a linear probe has nothing to learn")
    labelled = np.flatnonzero(labels >= 0)
    count = len(labelled)
    if count < 10:
        raise DataError(f"{graph.name} has {count} labelled nodes; to split them takes at least 10")
    order = rng.permute(rng.key(seed, "split"), torch.arange(count), count).numpy()
    first, second = (min(max(count // 10, least), most) for least, most in ((100, 3 * count // 5), (50, count // 5)))
    return Split(*(np.sort(labelled[part]) for part in np.split(order, [first, first + second])))

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
    """One tenth of the labelled nodes for training, one tenth for validation, the rest for testing: the paper's 1:1:8."""
    labels = graph.labels
    if labels is None:
        raise DataError(f"{graph.name} has no labels, so a linear probe has nothing to learn")
    labelled = np.flatnonzero(labels >= 0)
    count = len(labelled)
    if count < 10:
        raise DataError(f"{graph.name} has {count} labelled nodes; a 1:1:8 split needs at least 10")
    order = rng.permute(rng.key(seed, "split"), torch.arange(count), count).numpy()
    first, second = count // 10, 2 * (count // 10)
    return Split(*(np.sort(labelled[part]) for part in (order[:first], order[first:second], order[second:])))

"""Features where there are none: what a node's place in the graph tells, and a mark of its own."""

from __future__ import annotations

import hashlib

import numpy as np
import scipy.sparse as sp
import torch

from clnr import chance
from clnr.edges import Array

MARKS = 128


def structural(source: Array, target: Array, ids: Array, count: int) -> Array:
    """One row a node: its degree and its neighbours', and random numbers that follow from its id.

    Degrees alone cannot tell one neighbourhood from another; sums of neighbours' marks can, and a node that comes tomorrow has
    its mark, too. The columns are: log of the degree, the mean, least and largest of that among neighbours, each scaled to
    variance 1; then 128 normal numbers hashed from the id.
    """
    ones = np.ones(len(source), np.float32)
    adjacency = sp.coo_array((ones, (source, target)), shape=(count, count)).tocsr()
    adjacency = ((adjacency + adjacency.T) > 0).astype(np.float32).tocsr()
    count_of = np.diff(adjacency.indptr)
    degree = np.log1p(count_of).astype(np.float32)
    neighbours = degree[adjacency.indices]
    some = count_of > 0
    columns = [degree]
    for reduce in (np.add, np.minimum, np.maximum):
        values = np.zeros(count, np.float32)
        if some.any():
            values[some] = reduce.reduceat(neighbours, adjacency.indptr[:-1][some])
        columns.append(values)
    columns[1] /= np.maximum(1, count_of)
    shape = np.stack(columns, 1)
    spread = shape.std(0)
    shape = (shape - shape.mean(0)) / np.where(spread > 0, spread, 1)
    return np.concatenate([shape, _marks(ids) / np.sqrt(MARKS)], 1).astype(np.float32)


def _marks(ids: Array) -> Array:
    """Normal numbers that follow from each id alone, by Box and Muller's formula."""
    digests = b"".join(hashlib.blake2b(str(each).encode(), digest_size=8).digest() for each in ids.tolist())
    words = torch.from_numpy(np.frombuffer(digests, "<u4").astype(np.int64).reshape(-1, 2))
    column = torch.arange(MARKS)
    radius, angle = (
        (chance.draw(chance.key(0, "mark", part), words[:, :1], (words[:, 1:] + column) & 0xFFFFFFFF).double() + 0.5) / 2**32
        for part in ("radius", "angle")
    )
    return ((-2 * radius.log()).sqrt() * torch.cos(2 * torch.pi * angle)).float().numpy()

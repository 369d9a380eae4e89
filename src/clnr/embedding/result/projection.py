"""A 2-D map of an embedding: nodes that are similar lie close together."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.embedding.result.neighbors import NeighborList
from clnr.graph.csr import Array
from clnr.graph.kind_rows import unit

_STEPS_OF_FEW = 500
_FEW_NODES, _STEPS_OF_MANY = 10_000, 200
_STEP_SIZE = 0.5
_REPELLING_NODES = 5
_BISECTIONS = 40
# The curve 1 / (1 + a d^(2b)) that is nearest to: 1 up to a distance of 0.1, then falling as exp(-(d - 0.1)).
_CURVE_A, _CURVE_B = 1.577, 0.895
_LARGEST_MOVE = 4.0
_START_RADIUS = 10.0


def map_points(z: Array, near: NeighborList, seed: int) -> Array:
    """Points in the plane, [n, 2], by UMAP (McInnes and others, 2018) with all nodes moved at every step.

    Nearest neighbours attract each other, with weights that fall with their distance relative to the nearest, and random other
    nodes, by the seed, repel. The same input gives the same map.
    """
    start, count = _principal(unit(np.asarray(z, np.float32))), len(z)
    if count < 3 or 0 in (near.nodes.shape[1], z.shape[1]):
        return start
    points = torch.from_numpy(start)
    heads, tails, weights = _weighted(torch.from_numpy(near.nodes), torch.from_numpy(1 - near.cosine))
    everyone = torch.arange(count).repeat_interleave(_REPELLING_NODES)
    steps = _STEPS_OF_FEW if count <= _FEW_NODES else _STEPS_OF_MANY
    for step in range(steps):
        pull = _pull(points, heads, tails, weights)
        others = (rng.draw(rng.key(seed, "map", step), torch.arange(count * _REPELLING_NODES)) * count) >> 32
        push = _push(points, everyone, others)
        points = points + (pull + push) * (_STEP_SIZE * (1 - step / steps))
    return points.numpy()


def _principal(rows: Array) -> Array:
    """Where the map starts: the order of rows along their first two principal components, from -10 to 10.

    Signs are by the largest loading.
    """
    z = torch.from_numpy(rows)
    if z.shape[0] < 2 or z.shape[1] < 1:
        return np.zeros((z.shape[0], 2), np.float32)
    centred = (z - z.mean(0)).double()
    _, directions = torch.linalg.eigh(centred.T @ centred)
    chosen = directions[:, -2:].flip(1)
    chosen = chosen * chosen.gather(0, chosen.abs().argmax(0)[None]).sign()
    points = centred @ chosen
    points = torch.nn.functional.pad(points, (0, 2 - points.shape[1]))
    # By ranks, a few outliers do not press all others into a corner.
    ranks = points.argsort(dim=0, stable=True).argsort(dim=0, stable=True)
    return (_START_RADIUS * (2 * ranks / (len(points) - 1) - 1)).float().numpy()


def _weighted(nodes: Tensor, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The symmetrised neighbour graph: weights a + b - ab of both directions, then scaled to sum to 1 for each node."""
    count, k = nodes.shape
    beyond = (distance - distance[:, :1]).clamp_min(0).double()
    low, high = torch.zeros(count, 1).double(), torch.full((count, 1), 1e3).double()
    # The scale of each node that makes its weights add up to log2 k.
    for _ in range(_BISECTIONS):
        scale = (low + high) / 2
        much = (-beyond / scale.clamp_min(1e-12)).exp().sum(1, keepdim=True) > np.log2(max(2, k))
        low, high = torch.where(much, low, scale), torch.where(much, scale, high)
    weight = (-beyond / high.clamp_min(1e-12)).exp()
    rows = torch.arange(count).repeat_interleave(k)
    one_way = sp.csr_array((weight.reshape(-1).numpy(), (rows.numpy(), nodes.reshape(-1).numpy())), shape=(count, count))
    other = one_way.T.tocsr()
    both = (one_way + other - one_way * other).tocoo()
    heads, tails = (torch.from_numpy(each.astype(np.int64)) for each in (both.row, both.col))
    values = torch.from_numpy(both.data)
    total = torch.zeros(count).double().index_add_(0, heads, values)
    return heads, tails, (values / total[heads]).float()


def _power(values: Tensor, exponent: float) -> Tensor:
    """By NumPy: the last bits of torch's depend on the number of threads, and in many steps so would the map."""
    return torch.from_numpy(np.power(values.numpy(), np.float32(exponent)))


def _pull(points: Tensor, heads: Tensor, tails: Tensor, weights: Tensor) -> Tensor:
    apart = points[heads] - points[tails]
    square = apart.square().sum(1)
    force = -2 * _CURVE_A * _CURVE_B * _power(square.clamp_min(1e-12), _CURVE_B - 1) / (1 + _CURVE_A * _power(square, _CURVE_B))
    return torch.zeros_like(points).index_add_(0, heads, (weights * force)[:, None] * apart)


def _push(points: Tensor, nodes: Tensor, others: Tensor) -> Tensor:
    apart = points[nodes] - points[others]
    square = apart.square().sum(1)
    force = 2 * _CURVE_B / ((1e-3 + square) * (1 + _CURVE_A * _power(square, _CURVE_B)))
    moves = (force[:, None] * apart).clamp_(-_LARGEST_MOVE, _LARGEST_MOVE)
    return moves.reshape(len(points), _REPELLING_NODES, 2).sum(1)

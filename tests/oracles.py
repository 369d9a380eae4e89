"""Slow, independent formulas: NumPy in float64, loops where a loop is clearest. They share no code with the package."""

from __future__ import annotations

import math

import numpy as np


def lowbias32(x):
    """The 32-bit mixer in NumPy's own wrapping uint32 arithmetic."""
    x = np.asarray(x, dtype=np.uint32)
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def propagation(graph, keep=None):
    """The dense matrix D^-1/2 (A + I) D^-1/2 of the edges for which ``keep(source, target)`` holds."""
    n = graph.num_nodes
    a = np.zeros((n, n))
    for source, target, weight in zip(*edge_lists(graph), strict=True):
        if source == target or keep is None or keep(source, target):
            a[target, source] = weight
    for i in range(n):
        if a[i, i] == 0:
            a[i, i] = 1
    scale = 1 / np.sqrt(a.sum(1))
    return scale[:, None] * a * scale[None, :]


def edge_lists(graph):
    source, target, weight = graph.edges()
    return source.tolist(), target.tolist(), np.ones(len(source)).tolist() if weight is None else weight.tolist()


def dense(x):
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


def standardize(z):
    out = np.zeros_like(z)
    for j in range(z.shape[1]):
        mean = sum(z[:, j]) / len(z)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in z[:, j]) / len(z))
        if deviation > 0:
            out[:, j] = (z[:, j] - mean) / deviation
    return out


def nt_xent(u, v, temperature):
    """Equations 2 and 3 of the paper, term by term, with the sign that makes it a loss."""
    m = len(u)

    def s(a, b):
        return float(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))

    def term(a, b, i):
        positive = math.exp(s(a[i], b[i]) / temperature)
        negative = 0.0
        for k in range(m):
            if k != i:
                negative += math.exp(s(a[i], a[k]) / temperature) + math.exp(s(a[i], b[k]) / temperature)
        return math.log(positive / (positive + negative))

    return -sum(term(u, v, i) + term(v, u, i) for i in range(m)) / (2 * m)


def uniformity(u, scale=2.0):
    pairs = [(i, j) for i in range(len(u)) for j in range(len(u)) if i != j]
    return math.log(sum(math.exp(-scale * float(((u[i] - u[j]) ** 2).sum())) for i, j in pairs) / len(pairs))


def effective_rank(z):
    values = np.linalg.svd(z, compute_uv=False)
    p = values / values.sum()
    return math.exp(-sum(q * math.log(q) for q in p if q > 0))

"""Slow, independent formulas: NumPy in float64, loops where a loop is clearest. They share no code with the package."""

from __future__ import annotations

import math
import zlib

import numpy as np


def lowbias32(x):
    """The 32-bit mixer in NumPy's own wrapping uint32 arithmetic."""
    x = np.asarray(x, dtype=np.uint32)
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def key(seed, *path):
    """The two words that name a stream."""
    low, high = seed % 2**32, seed >> 32
    a = _word(_word(low ^ 0x243F6A88) + high)
    b = _word(a + low)
    for step in path:
        a = _word(a ^ (zlib.crc32(step.encode()) if isinstance(step, str) else step))
        b = _word(a + b)
    return a, b


def _word(x):
    return int(lowbias32([x % 2**32])[0])


def draw(key, i, j=0):
    """One hashed word for a pair of numbers."""
    return _word((_word(i ^ key[0]) + j) % 2**32 ^ key[1])


def kept(key, rate, i, j=0):
    return draw(key, i, j) >= int(rate * 2**32)


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


def rescale(z):
    numbers = [float(value) for row in z for value in row]
    mean = sum(numbers) / len(numbers)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in numbers) / len(numbers))
    return (z - mean) / deviation


def whiten(z, floor=1e-5):
    """By the singular values of the centred rows: the covariance is never formed."""
    centred = z - z.sum(0) / len(z)
    u, size, vt = np.linalg.svd(centred, full_matrices=False)
    variance = size**2 / len(z)
    return (u * size / np.sqrt(variance + floor * variance.sum() / z.shape[1])) @ vt


def elu(x):
    return x if x > 0 else math.exp(x) - 1


def leaky(x, slope):
    return x if x > 0 else slope * x


def each(function, h):
    return np.array([[function(value) for value in row] for row in h]).reshape(np.shape(h))


def perceptron(z, w, b, v, c, activation):
    """Two linear layers, number by number."""
    out = np.zeros((len(z), len(c)))
    for row in range(len(z)):
        hidden = [activation(b[k] + sum(z[row, i] * w[i, k] for i in range(z.shape[1]))) for k in range(len(b))]
        for column in range(len(c)):
            out[row, column] = c[column] + sum(hidden[k] * v[k, column] for k in range(len(b)))
    return out


def linear(z, w, b):
    return np.array([[b[k] + sum(row[i] * w[i, k] for i in range(len(row))) for k in range(len(b))] for row in z])


def batch_norm(h, scale, shift, mean=None, variance=None):
    out = np.zeros_like(h)
    for j in range(h.shape[1]):
        m = sum(h[:, j]) / len(h) if mean is None else mean[j]
        v = sum((h[:, j] - m) ** 2) / len(h) if variance is None else variance[j]
        out[:, j] = (h[:, j] - m) / math.sqrt(v + 1e-5) * scale[j] + shift[j]
    return out


def listened_to(graph, keep=None):
    """For each node, the nodes whose edges lead to it and are kept, itself among them."""
    near = [{i} for i in range(graph.num_nodes)]
    for source, target, _ in zip(*edge_lists(graph), strict=True):
        if keep is None or keep(source, target):
            near[target].add(source)
    return [sorted(nodes) for nodes in near]


def attend(h, source, target, near):
    """One head of attention, node by node: the new rows, and the shares by (source, target)."""
    out, shares = np.zeros_like(h), {}
    for j, nodes in enumerate(near):
        force = [math.exp(leaky(source[i] + target[j], 0.2)) for i in nodes]
        for i, value in zip(nodes, force, strict=True):
            shares[i, j] = value / sum(force)
            out[j] += shares[i, j] * h[i]
    return out, shares


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


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cca(u, v, decorrelation):
    n, width = u.shape

    def penalty(z):
        total = 0.0
        for a in range(width):
            for b in range(width):
                total += ((a == b) - sum(z[i, a] * z[i, b] for i in range(n)) / n) ** 2
        return total

    return -sum(float(u[i] @ v[i]) for i in range(n)) / n + decorrelation * (penalty(u) + penalty(v))


def infomax(pairs, weight, bias):
    """Binary cross entropy over ``pairs`` of (real rows, corrupted rows, rows of the graph that is summarised)."""
    terms = []
    for real, corrupted, summarised in pairs:
        c = [sigmoid(sum(summarised[:, k]) / len(summarised)) for k in range(summarised.shape[1])]
        for rows, true in ((real, True), (corrupted, False)):
            for h in rows:
                logit = bias + sum(h[a] * weight[a, b] * c[b] for a in range(len(h)) for b in range(len(c)))
                p = sigmoid(logit)
                terms.append(-math.log(p if true else 1 - p))
    return sum(terms) / len(terms)


def cosine(a, b):
    return float(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))


def bootstrap(u, v, u_target, v_target, predict):
    q, r = predict(u), predict(v)
    return sum(2 - cosine(q[i], v_target[i]) - cosine(r[i], u_target[i]) for i in range(len(u))) / len(u)


def non_edges(graph):
    """All ordered pairs of two nodes without an edge from the second to the first."""
    linked = {(target, source) for source, target, _ in zip(*edge_lists(graph), strict=True)}
    n = graph.num_nodes
    return [(i, j) for i in range(n) for j in range(n) if i != j and (i, j) not in linked]


def reconstruction(z, graph, pairs):
    """Half the mean over edges between two nodes, half that over those of ``pairs`` that are no edges and no loops."""
    free = set(non_edges(graph))
    edges = [(j, i) for i, j, _ in zip(*edge_lists(graph), strict=True) if i != j]
    hits = [softplus(-float(z[i] @ z[j])) for i, j in edges]
    misses = [softplus(float(z[i] @ z[j])) for i, j in pairs if (i, j) in free]
    return sum(hits) / max(len(hits), 1) / 2 + sum(misses) / max(len(misses), 1) / 2


def divergence(mean, deviation):
    """From N(mean, deviation^2) to N(0, 1), summed."""
    pairs = zip(np.ravel(mean), np.ravel(deviation), strict=True)
    return sum((m**2 + s**2 - 1) / 2 - math.log(s) for m, s in pairs)


def cross_entropy(logits, labels):
    total = 0.0
    for row, label in zip(logits, labels, strict=True):
        total += math.log(sum(math.exp(value) for value in row)) - row[label]
    return total / len(labels)


def rates(importance, rate, ceiling=0.7):
    s = [math.log(value) for value in importance]
    top, mean = max(s), sum(s) / len(s)
    return [min((top - value) / (top - mean) * rate, ceiling) for value in s]


def with_loops(graph):
    """The dense A + I by target, in which a loop of the graph's own keeps its weight."""
    a = np.zeros((graph.num_nodes,) * 2)
    for source, target, weight in zip(*edge_lists(graph), strict=True):
        a[target, source] = weight
    for i in range(len(a)):
        a[i, i] = a[i, i] or 1.0
    return a


def diffusion(graph, teleport):
    """Personalised PageRank by a dense inverse: S, and the degrees."""
    a = with_loops(graph)
    degree = a.sum(1)
    scale = 1 / np.sqrt(degree)
    hat = scale[:, None] * a * scale[None, :]
    return teleport * np.linalg.inv(np.eye(len(a)) - (1 - teleport) * hat), degree

"""Views as dense float64 matrices: of all nodes, or of those that boolean powers reach from some."""

import numpy as np
import scipy.sparse as sp
import torch

from clnr.engine import Operators, Reference
from tests import oracles
from tests.engine.conftest import random


def kept(view):
    """What a view keeps of its matrix, dense."""
    links = view.propagation
    values = links.values.double() if view.drop is None else links.values.double() * view.drop.keep(links)
    return sp.csr_array((values.cpu(), links.columns.cpu(), links.indptr.cpu()), shape=links.shape).toarray()


def propagation(view):
    a = kept(view)
    scale = 1 / np.sqrt(a.sum(1)) if view.propagation_matrix is None else np.ones(len(a))
    return scale[:, None] * a * scale


def reached(a, nodes, hops):
    """The nodes within so many hops, by boolean powers."""
    step = np.linalg.matrix_power(((a != 0) | np.eye(len(a), dtype=bool)).astype(float), hops)
    return set(np.flatnonzero(step[nodes].any(0)).tolist())


class DenseOperators(Operators):
    """A view as dense float64 matrices of all nodes; given some that are wanted, of those within some hops alone."""

    def __init__(self, view, nodes=None, hops=0):
        super().__init__(view)
        self._wanted, self._hops = nodes, hops
        self._a, x, mask = propagation(view), oracles.dense(view.device_graph.graph.features), view.mask
        if mask is not None:
            device = mask.rate.device if isinstance(mask.rate, torch.Tensor) else torch.device("cpu")
            rows, columns = (torch.arange(size, device=device) for size in x.shape)
            factor = mask.of_elements(rows[:, None], columns) if mask.elements else mask.of_columns(x.shape[1], device)
            x = x * factor.cpu().numpy()
        self._features = torch.tensor(x if view.node_permutation is None else x[view.node_permutation.cpu().numpy()])

    def within(self, hops):
        return DenseOperators(self.view, self._wanted, hops)

    def _nodes(self, hops):
        if self._wanted is None:
            return torch.arange(len(self._a))
        return torch.tensor(self._wanted if hops == 0 else sorted(reached(self._a, self._wanted, hops)))

    @property
    def nodes(self):
        return None if self._wanted is None else self._nodes(self._hops)

    @property
    def features(self):
        return self._features[self._nodes(self._hops)]

    def project(self, weight, bias=None):
        return self.features @ weight if bias is None else self.features @ weight + bias

    def propagate(self, h, relu=False):
        matrix = torch.tensor(self._a)[self._nodes(self._hops - 1)][:, self._nodes(self._hops)]
        return matrix @ (h.relu() if relu else h)

    def convolve(self, weight, bias, h=None, relu=False):
        return self.propagate(self.features if h is None else h, relu and h is not None) @ weight + bias


class DenseEngine(Reference):
    """Sampled steps by these matrices, in float64."""

    def __init__(self):
        super().__init__(torch.device("cpu"))

    def sampled_operators(self, view, nodes, streams=None, draws=None):
        return DenseOperators(view.bounded(), nodes.numpy())


def close(got, expected, rtol=2e-5, atol=2e-6):
    """Up to rounding, relative to the largest number."""
    got, expected = (each.detach().cpu().double().numpy() for each in (got, expected))
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol * max(1, np.abs(expected).max(initial=0)))


def outcome(operators, count, dtype, device="cpu", select=None):
    """Rows of the wanted nodes by every map, or of all, and the gradients of weights."""
    shapes = (count, 9), (9, 4), (4, 9), (9,), (4,)
    leaves = [
        torch.tensor(random(*shape, seed=i), dtype=dtype, device=device, requires_grad=True) for i, shape in enumerate(shapes)
    ]
    w, v, u, shift, bias = leaves
    near, nearer, at = (operators.within(hops) for hops in (2, 1, 0))
    hidden = near.convolve(w, shift)
    rows = [
        nearer.convolve(v, bias, hidden, relu=True),
        nearer.convolve(u, shift, near.propagate(near.project(w)) @ v),
        nearer.propagate(hidden, relu=True),
        nearer.propagate(near.convolve(v, bias, operators.within(3).convolve(w, shift))),
        nearer.convolve(w, shift),
        at.project(w, shift),
        at.project(w),
        at.features,
    ]
    rows = [each if select is None else each[select] for each in rows]
    targets = [torch.tensor(random(*each.shape, seed=9), dtype=dtype, device=device) for each in rows]
    sum((each * target).sum() for each, target in zip(rows, targets, strict=True)).backward()
    return [*rows, *(leaf.grad for leaf in leaves)]


def assert_rows_of_the_whole(engine, view, nodes, in_memory=None, rtol=2e-5, atol=2e-6):
    """Sampled rows and gradients are those of all rows, of which some are selected; returns the operators of the sample.

    Of a graph in files, the whole is the same view of it in memory.
    """
    whole, count = (in_memory or view).bounded(), view.device_graph.graph.num_features
    operators = engine.sampled_operators(view, torch.tensor(nodes, device=engine.device))
    got = outcome(operators, count, torch.float32, engine.device)
    for one, other in zip(got, outcome(DenseOperators(whole), count, torch.float64, select=nodes), strict=True):
        close(one, other, rtol, atol)
    return operators

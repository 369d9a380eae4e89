"""A view's operators as dense float64 matrices of the oracles, exact enough to be differentiated by differences."""

from __future__ import annotations

import numpy as np
import torch

from clnr.engine import Operators, View, cpu_engine
from tests import oracles

ENGINE = cpu_engine()


class Exact(Operators):
    def __init__(self, graph, **more):
        super().__init__(View(ENGINE.to_device(graph), **more))
        self.x = torch.tensor(oracles.dense(graph.features))
        self.a = torch.tensor(oracles.propagation(graph))

    @property
    def features(self):
        return self.x

    def project(self, weight, bias=None):
        return self.x @ weight if bias is None else self.x @ weight + bias

    def propagate(self, h, relu=False):
        return self.a @ (h.relu() if relu else h)

    def convolve(self, weight, bias, h=None, relu=False):
        return self.propagate(self.x if h is None else h, relu and h is not None) @ weight + bias


def operators(graph, **more):
    return ENGINE.operators(View(ENGINE.to_device(graph), **more))


def jittered(parameters, seed=0):
    """In float64, with biases and the like off their first values."""
    random = np.random.default_rng(seed)
    return {name: value.double() + 0.2 * torch.tensor(random.random(value.shape)) for name, value in parameters.items()}


def plain(parameters):
    return {name: value.numpy() for name, value in parameters.items()}


def single(parameters):
    return {name: value.float() for name, value in parameters.items()}


def differentiable(function, parameters):
    """Whether the gradients of ``function(parameters)`` for all parameters are those of differences."""
    names, values = zip(*parameters.items(), strict=True)
    inputs = [value.clone().requires_grad_() for value in values]
    return torch.autograd.gradcheck(lambda *all: function(dict(zip(names, all, strict=True))), inputs)

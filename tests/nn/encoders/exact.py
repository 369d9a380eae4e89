"""Views of small graphs, and parameters to encode them with."""

import numpy as np
import torch

from clnr.engine import View, cpu_engine
from tests.engine.dense_views import DenseOperators

ENGINE = cpu_engine()


def exact(graph, **more):
    """A view's maps as dense float64 matrices, exact enough to be differentiated by differences."""
    return DenseOperators(View(ENGINE.to_device(graph), **more))


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

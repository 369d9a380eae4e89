"""A moment of training, and rows to put into an objective."""

import numpy as np
import torch

from clnr.engine import cpu_engine
from clnr.nn.objectives import StepContext
from tests.conftest import tiny

ENGINE = cpu_engine()
TINY = ENGINE.to_device(tiny())


def step(epoch=0, seed=0, graph=None, supervision=None):
    return StepContext(ENGINE, TINY if graph is None else ENGINE.to_device(graph), seed, epoch, 1000, supervision)


def rows(count, *shape, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for _ in range(count)]


def value(objective, views, when=None, parameters=None):
    weights = {name: torch.as_tensor(weight) for name, weight in (parameters or {}).items()}
    return float(objective(weights, [torch.tensor(view) for view in views], when or step()))


def differentiable(objective, views, when=None, parameters=None):
    """Whether the gradients for all views and parameters are those of differences."""
    names = list(parameters or {})
    inputs = [torch.tensor(part, requires_grad=True) for part in (*views, *(parameters or {}).values())]

    def loss(*parts):
        weights = dict(zip(names, parts[len(views) :], strict=True))
        return objective(weights, list(parts[: len(views)]), when or step())

    return torch.autograd.gradcheck(loss, inputs)

"""A moment of training, and rows to put into an objective."""

from __future__ import annotations

import numpy as np
import torch

from clnr.engine import cpu
from clnr.nn.objectives import Moment
from tests.conftest import tiny

ENGINE = cpu()
TINY = ENGINE.place(tiny())


def moment(epoch=0, seed=0, graph=None, lesson=None):
    return Moment(ENGINE, TINY if graph is None else ENGINE.place(graph), seed, epoch, 1000, lesson)


def rows(count, *shape, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for _ in range(count)]


def value(objective, views, when=None, parameters=None):
    weights = {name: torch.as_tensor(weight) for name, weight in (parameters or {}).items()}
    return float(objective(weights, [torch.tensor(view) for view in views], when or moment()))


def differentiable(objective, views, when=None, parameters=None):
    """Whether the gradients for all views and parameters are those of differences."""
    names = list(parameters or {})
    inputs = [torch.tensor(part, requires_grad=True) for part in (*views, *(parameters or {}).values())]

    def loss(*parts):
        weights = dict(zip(names, parts[len(views) :], strict=True))
        return objective(weights, list(parts[: len(views)]), when or moment())

    return torch.autograd.gradcheck(loss, inputs)

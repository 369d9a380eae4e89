"""Objectives: from the postprocessed views of one epoch to a number that falls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from clnr import chance
from clnr.encoders import Parameters
from clnr.engine import Engine, Placed


@dataclass(frozen=True, eq=False)
class Moment:
    """Where and when: one epoch of one training on one engine."""

    engine: Engine
    placed: Placed
    seed: int
    epoch: int


class Objective(ABC):
    """A loss of the views' rows, with parameters of its own or none."""

    @abstractmethod
    def init(self, width: int, key: chance.Key) -> Parameters:
        """Fresh parameters for rows of ``width`` numbers."""

    @abstractmethod
    def __call__(self, parameters: Parameters, views: list[Tensor], moment: Moment) -> Tensor: ...


def unit_rows(z: Tensor) -> Tensor:
    """Rows scaled to length 1; a zero row stays zero, with a zero gradient."""
    length = z.square().sum(1, keepdim=True)
    zero = length == 0
    return z * torch.where(zero, 0, torch.where(zero, 1, length).rsqrt())


@dataclass(frozen=True)
class NTXent(Objective):
    r"""Normalised temperature-scaled cross entropy over ``sampled_nodes`` nodes, equations 2 and 3 of the paper.

    .. math:: -\frac{1}{2m} \sum_i \left[ \ell(u_i, v_i) + \ell(v_i, u_i) \right]

    Chen et al., "A simple framework for contrastive learning of visual representations" (2020). The nodes are drawn afresh
    each epoch; 0, or a number not below the graph's, takes all of them.
    """

    temperature: float
    sampled_nodes: int

    def init(self, width: int, key: chance.Key) -> Parameters:
        return {}

    def __call__(self, parameters: Parameters, views: list[Tensor], moment: Moment) -> Tensor:
        u, v = views
        if 0 < self.sampled_nodes < u.shape[0]:
            nodes = chance.sample(moment.seed, moment.epoch, u.shape[0], self.sampled_nodes, u.device)
            u, v = u[nodes], v[nodes]
        return moment.engine.contrast(unit_rows(torch.cat([u, v])), self.temperature)

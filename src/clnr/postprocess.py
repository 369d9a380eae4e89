"""What stands between the encoder and the loss: the paper's single variable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from clnr import chance
from clnr.encoders import Parameters


class Postprocess(ABC):
    """A map of all N rows at once, with parameters of its own or none."""

    @abstractmethod
    def init(self, width: int, key: chance.Key) -> Parameters:
        """Fresh parameters for rows of ``width`` numbers."""

    @abstractmethod
    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor: ...


def standardize(z: Tensor) -> Tensor:
    r"""Columns to mean 0 and standard deviation 1 (divisor n): :math:`u_{ij} = (z_{ij} - \mu_j) / \sigma_j`.

    Equation 1 of the paper, with the square that its print leaves out. A column that is constant up to float rounding
    (a deviation under a millionth of its size) gives zeros, with zero gradients.
    """
    variance, mean = torch.var_mean(z, 0, correction=0)
    floor = 1e-12 * (variance + mean.square())
    constant = variance <= floor
    return (z - mean) * torch.where(constant, 0, torch.where(constant, 1, variance).rsqrt())


@dataclass(frozen=True)
class Standardize(Postprocess):
    """``standardize``: CLNR's choice."""

    def init(self, width: int, key: chance.Key) -> Parameters:
        return {}

    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor:
        return standardize(z)

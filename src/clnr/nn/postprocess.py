"""Postprocessing, between the encoder and the loss: the one thing that the paper varies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from clnr import rng
from clnr.nn.layers import HEAD_WIDTH, Parameters, add_prefix, linear_layers, perceptron, prelu, prelu_weights, sub_dict

if TYPE_CHECKING:
    from torch import Tensor

    from clnr.nn.lazy_linear import LazyLinear

FLOOR = 1e-5


class Postprocess(ABC):
    """A map of rows, with parameters of its own or none.

    Attributes:
        columns: Whether it looks at whole columns and so needs all rows; else it may be given only some.
        of_moments: Whether it looks at nothing of the columns but mean and variance, so that some rows and those suffice.
        ignores_shifts: Whether a constant that is added to a column makes no difference.
        head: Whether it is a learned projection.
    """

    columns: ClassVar[bool] = True
    of_moments: ClassVar[bool] = False
    ignores_shifts: ClassVar[bool] = False
    head: ClassVar[bool] = False

    def init(self, width: int, key: rng.Key) -> Parameters:
        """Fresh parameters for rows of ``width`` numbers; by default none."""
        return {}

    @abstractmethod
    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor:
        """The map of a tensor of rows."""

    def apply(self, parameters: Parameters, rows: LazyLinear) -> LazyLinear:
        """The same map of rows that may not be computed yet; where ``of_moments``, also of some rows only."""
        from clnr.nn.lazy_linear import LazyLinear

        return LazyLinear(self(parameters, rows.materialize()), dense=rows.dense)


class MomentPostprocess(Postprocess):
    """One that looks at nothing of the columns but mean and variance."""

    of_moments: ClassVar[bool] = True

    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor:
        from clnr.nn.lazy_linear import LazyLinear

        return self.apply(parameters, LazyLinear(z)).materialize()

    @abstractmethod
    def apply(self, parameters: Parameters, rows: LazyLinear) -> LazyLinear: ...


def whiten(z: Tensor) -> Tensor:
    r"""Columns to mean 0 and covariance I by the symmetric (ZCA) map: :math:`(Z - \mu) \Sigma^{-1/2}`.

    Huang et al., "Decorrelated batch normalization" (2018). To the covariance (divisor n) is added ``FLOOR`` (1e-5) times its
    mean eigenvalue in every direction: it is the floor of the eigenvalues, so that directions in which rows do not vary stay
    small, with finite values and gradients at any rank; a column that is constant up to rounding gives zeros. Covariance and
    root are computed in float64.
    """
    import torch

    from clnr.engine.dense import constant

    variance, mean = torch.var_mean(z.double(), 0, correction=0)
    centred = torch.where(constant(variance, mean), 0, z.double() - mean)
    covariance = centred.T @ centred / z.shape[0]
    size = covariance.diagonal().mean()
    floor = FLOOR * torch.where(size == 0, 1, size)
    one = torch.eye(z.shape[1], dtype=torch.float64, device=z.device)
    return (centred @ inverse_root(covariance + floor * one)).to(z.dtype)


def inverse_root(matrix: Tensor) -> Tensor:
    """The inverse square root of a symmetric positive definite matrix, differentiable also at equal eigenvalues.

    On a GPU no eigenvalue may be below ``FLOOR`` times the mean of the matrix without that floor.
    """
    from clnr.nn.autograd import InverseRoot

    # The Frobenius norm is at most the trace.
    return InverseRoot.apply(matrix, FLOOR / (1 + FLOOR) / max(1, len(matrix)))


@dataclass(frozen=True)
class Standardize(MomentPostprocess):
    r"""Columns to mean 0 and standard deviation 1 (divisor n), CLNR's choice: :math:`u_{ij} = (z_{ij} - \mu_j) / \sigma_j`.

    Equation 1 of the paper, with the square that is missing in print. A column that is constant up to rounding (a deviation
    under a millionth of its size) becomes zeros, with zero gradients.
    """

    ignores_shifts: ClassVar[bool] = True

    def apply(self, parameters: Parameters, rows: LazyLinear) -> LazyLinear:
        return rows.standardized()


@dataclass(frozen=True)
class Rescale(MomentPostprocess):
    """All numbers to mean 0 and standard deviation 1, as if they were one column: what the authors ran for whitening."""

    def apply(self, parameters: Parameters, rows: LazyLinear) -> LazyLinear:
        from clnr.engine.dense import inverse_deviation

        variances, means = rows.column_moments()
        mean = means.mean()
        scale = inverse_deviation((variances + (means - mean).square()).mean(), mean)
        return rows.rescaled((rows.materialize() - mean) * scale, mean, lambda: scale)


@dataclass(frozen=True)
class Whiten(Postprocess):
    """``whiten``: columns that are standardised and uncorrelated."""

    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor:
        return whiten(z)


@dataclass(frozen=True)
class ShortcutHead(Postprocess):
    """A learned projection of three layers as wide as the rows, each with PReLU, beside a linear shortcut: MVGRL's choice."""

    columns: ClassVar[bool] = False
    head: ClassVar[bool] = True

    _LAYERS: ClassVar[int] = 3

    def init(self, width: int, key: rng.Key) -> Parameters:
        deep = linear_layers([width] * (self._LAYERS + 1), rng.branch(key, "deep")) | prelu_weights(self._LAYERS)
        return add_prefix("deep", deep) | add_prefix("shortcut", linear_layers([width, width], rng.branch(key, "shortcut")))

    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor:
        import torch

        from clnr.nn.autograd import prelu_linear

        deep, shortcut = sub_dict(parameters, "deep"), sub_dict(parameters, "shortcut")
        h = torch.addmm(deep["0.bias"], z, deep["0.weight"])
        for layer in range(1, self._LAYERS):
            h = prelu_linear(h, deep[f"{layer - 1}.slope"], deep[f"{layer}.weight"], deep[f"{layer}.bias"])
        return prelu(h, deep[f"{self._LAYERS - 1}.slope"]) + torch.addmm(shortcut["0.bias"], z, shortcut["0.weight"])


@dataclass(frozen=True)
class Head(Postprocess):
    """A learned projection of one hidden layer with ELU, ``head_width`` wide (0 for twice the rows): GRACE's choice."""

    head_width: int = HEAD_WIDTH.field()

    columns: ClassVar[bool] = False
    head: ClassVar[bool] = True

    def init(self, width: int, key: rng.Key) -> Parameters:
        return linear_layers([width, self.head_width or 2 * width, width], key)

    def __call__(self, parameters: Parameters, z: Tensor) -> Tensor:
        import torch

        return perceptron(parameters, z, torch.nn.functional.elu)

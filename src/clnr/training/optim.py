"""Adam by torch's fused step. torch.optim is avoided: its first use imports a compiler, which takes seconds."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class Adam:
    """Kingma and Ba, "Adam: a method for stochastic optimization" (2015).

    Args:
        parameters: Changed in place.
        weight_decay: Strength of the weight decay.
        decoupled: Whether decay acts on the weights themselves (Loshchilov and Hutter, 2019) or is added to the gradient.
    """

    def __init__(self, parameters: Iterable[Tensor], weight_decay: float = 0.0, decoupled: bool = False):
        self._parameters = list(parameters)
        self._means, self._squares = ([torch.zeros_like(each) for each in self._parameters] for _ in range(2))
        self._step = torch.zeros((), device=self._parameters[0].device)
        self._decay = weight_decay
        self._fused = torch._fused_adamw_ if decoupled else torch._fused_adam_

    @property
    def state(self) -> list[Tensor]:
        """Step counter and moments, to be copied, or copied into."""
        return [self._step, *self._means, *self._squares]

    @torch.no_grad()
    def step(self, gradients: Iterable[Tensor | None], rate: float | Tensor) -> None:
        """One step; parameters without a gradient do not change."""
        self._step += 1
        every = zip(self._parameters, gradients, self._means, self._squares, strict=True)
        parameters, slopes, means, squares = map(list, zip(*(row for row in every if row[1] is not None), strict=True))
        self._fused(
            parameters,
            slopes,
            means,
            squares,
            [],
            [self._step] * len(parameters),
            lr=rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=self._decay,
            eps=_EPSILON,
            amsgrad=False,
            maximize=False,
        )

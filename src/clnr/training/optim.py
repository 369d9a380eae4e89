"""Adam, by an engine's own step."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from clnr.engine.dense import PLAIN, AdamTensors, Dense


class Adam:
    """Kingma and Ba, "Adam: a method for stochastic optimization" (2015).

    Args:
        parameters: Changed in place.
        weight_decay: Strength of the weight decay.
        decoupled: Whether decay acts on the weights themselves (Loshchilov and Hutter, 2019) or is added to the gradient.
        dense: How to compute: an engine's ``dense``.
    """

    def __init__(self, parameters: Iterable[Tensor], weight_decay: float = 0.0, decoupled: bool = False, dense: Dense = PLAIN):
        self._parameters = list(parameters)
        self._means, self._squares = ([torch.zeros_like(each) for each in self._parameters] for _ in range(2))
        self._step = torch.zeros((), device=self._parameters[0].device)
        self._decay, self._decoupled, self._dense = weight_decay, decoupled, dense

    @property
    def state(self) -> list[Tensor]:
        """Step counter and moments, to be copied, or copied into."""
        return [self._step, *self._means, *self._squares]

    @torch.no_grad()
    def step(self, gradients: Iterable[Tensor | None], rate: float | Tensor) -> None:
        """One step; parameters without a gradient do not change."""
        self._step += 1
        every = zip(self._parameters, gradients, self._means, self._squares, strict=True)
        tensors = [AdamTensors(p, g, mean, square) for p, g, mean, square in every if g is not None]
        self._dense.adam(tensors, self._step, rate, self._decay, self._decoupled)

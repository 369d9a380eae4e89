"""Early stopping: the parameters of the best epoch, and the epoch at which patience ends."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clnr.nn.layers import Parameters


class EarlyStopping:
    """The parameters of the lowest criterion, chosen on the device; later epochs are ignored once patience has run out.

    The host learns of the end some epochs late and trains a little longer; the kept parameters do not change.
    """

    def __init__(self, parameters: Parameters, patience: int):
        self.parameters = {name: value.detach().clone() for name, value in parameters.items()}
        device = next(iter(parameters.values())).device
        self._patience = patience
        self._lowest = torch.tensor(torch.inf, device=device)
        self._waited = torch.zeros((), dtype=torch.int64, device=device)

    @property
    def state(self) -> dict[str, Tensor]:
        return self.parameters | {" lowest": self._lowest, " waited": self._waited}

    @torch.no_grad()
    def update(self, criterion: Tensor, parameters: Parameters) -> None:
        """Take in the criterion of an epoch and the parameters that it was measured with."""
        going = self._waited < self._patience
        better = (criterion < self._lowest) & going
        self._lowest.copy_(torch.where(better, criterion, self._lowest))
        self._waited.copy_(torch.where(better, 0, self._waited + going))
        for name, value in parameters.items():
            self.parameters[name].copy_(torch.where(better, value, self.parameters[name]))


def ended(criteria: Tensor, patience: int) -> int | None:
    """The number of epochs after which patience ended: ``patience`` past the best so far; None if it has not."""
    if not patience or not len(criteria):
        return None
    # Better means lower than all before, as on the device; NaN is never better.
    known = torch.where(criteria.isnan(), math.inf, criteria)
    before = torch.cat([torch.tensor([math.inf]), known.cummin(0).values[:-1]])
    epoch = torch.arange(len(known))
    waited = epoch - torch.where(known < before, epoch, -1).cummax(0).values
    over = (waited >= patience).nonzero()
    return int(over[0]) + 1 if len(over) else None

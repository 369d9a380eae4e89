"""One seed's training: its parameters, its optimiser, and a step of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from clnr.errors import DataError
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters, misfit
from clnr.nn.objectives import Moment
from clnr.training.early_stopping import Best
from clnr.training.optim import Adam


class Trainee:
    """What learns, and how.

    On a GPU, the epoch is a counter there, as is the learning rate, and nothing in a step waits for it.

    Args:
        model: What to train.
        recipe: By which numbers.
        fresh: Its parameters before the first epoch.
        start: The moment of the first epoch.
        written: Where an epoch's loss and criterion go, [2, epochs].
    """

    def __init__(self, model: Model, recipe: Recipe, fresh: Parameters, start: Moment, written: Tensor):
        device = start.engine.device
        self._parameters = {name: value.to(device).requires_grad_() for name, value in fresh.items()}
        self._model, self._moment, self._written = model, start, written
        self._best = Best(self._parameters, recipe.patience) if recipe.patience and written.numel() else None
        if not written.numel():
            return
        rates = [learning_rate(recipe, epoch) for epoch in range(recipe.epochs)]
        self._rates: list[float] | Tensor = rates
        if device.type == "cuda":
            self._moment = dataclasses.replace(start, epoch=torch.zeros((), dtype=torch.int64, device=device))
            self._rates = torch.tensor(rates, device=device)
        self._adam = Adam(self._parameters.values(), recipe.weight_decay, decoupled=recipe.decay == "decoupled")

    @property
    def final(self) -> Parameters:
        """Those of the best epoch, where patience asks for it, else of the last."""
        chosen = self._parameters if self._best is None else self._best.parameters
        return {name: value.detach() for name, value in chosen.items()}

    @property
    def state(self) -> dict[str, Tensor]:
        """All that the epochs so far have left, to be copied, or copied into by ``go_on``."""
        state = {f"parameters.{name}": value.detach() for name, value in self._parameters.items()}
        state |= {f"adam.{i}": value for i, value in enumerate(self._adam.state)}
        if self._best is not None:
            state |= {f"best.{name}": value for name, value in self._best.state.items()}
        return state | {"written": self._written}

    def go_on(self, state: Mapping[str, Tensor], done: int) -> None:
        """Be as another was after so many epochs, whose state is given.

        Raises:
            DataError: The state is not of such a training.
        """
        epochs = self._written.shape[1]
        if not 0 <= done <= epochs:
            raise DataError(f"the checkpoint does not fit this training: it is of epoch {done} of {epochs}")
        if wrong := misfit(self.state, state):
            raise DataError(f"the checkpoint does not fit this training: {wrong}")
        self._put(state, done)

    @torch.no_grad()
    def _put(self, state: Mapping[str, Tensor], epoch: int | Tensor) -> None:
        for name, value in self.state.items():
            value.copy_(state[name])
        if isinstance(self._moment.epoch, Tensor):
            self._moment.epoch.copy_(torch.as_tensor(epoch))
        else:
            self._moment = dataclasses.replace(self._moment, epoch=epoch)

    def snapshot(self) -> Callable[[], None]:
        """Copy all that an epoch changes; what is returned puts it back."""
        state = {name: value.clone() for name, value in self.state.items()}
        epoch = self._moment.epoch.clone() if isinstance(self._moment.epoch, Tensor) else self._moment.epoch
        return lambda: self._put(state, epoch)

    def step(self) -> None:
        """One epoch."""
        model, parameters, moment = self._model, self._parameters, self._moment
        loss = model.loss(parameters, moment)
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        criterion = loss.detach()
        if self._best is not None:
            criterion = model.criterion(parameters, criterion, moment)
            self._best.offer(criterion, parameters)
        self._adam.step(gradients, self._rate(moment.epoch))
        model.advance(parameters, moment.epoch, moment.epochs)
        self._write(moment.epoch, loss.detach(), criterion)
        self._next(moment)

    def _rate(self, epoch: int | Tensor) -> float | Tensor:
        if isinstance(epoch, int):
            return self._rates[epoch]
        assert isinstance(self._rates, Tensor)
        return self._rates.index_select(0, epoch.reshape(1))[0]

    def _write(self, epoch: int | Tensor, loss: Tensor, criterion: Tensor) -> None:
        place = torch.as_tensor(epoch, device=self._written.device).reshape(1)
        self._written.index_copy_(1, place, torch.stack([loss, criterion])[:, None])

    def _next(self, moment: Moment) -> None:
        if isinstance(moment.epoch, Tensor):
            moment.epoch.add_(1)
        else:
            self._moment = dataclasses.replace(moment, epoch=moment.epoch + 1)


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """The rate of one epoch: rising in a straight line during the warm-up, then constant or falling by half a cosine."""
    warm = recipe.warmup * recipe.epochs
    if epoch < warm:
        return recipe.learning_rate * epoch / warm
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (1 + math.cos(math.pi * (epoch - warm) / (recipe.epochs - warm))) / 2

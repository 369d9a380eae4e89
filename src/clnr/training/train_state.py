"""The state of one training: parameters, optimiser, early stopping; and one step of it."""

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
from clnr.nn.objectives import StepContext
from clnr.training.early_stopping import EarlyStopping
from clnr.training.optim import Adam


class TrainState:
    """The training of one seed.

    With a graph on a GPU, the epoch counter and the learning rate are tensors there, and nothing in a step waits for it.

    Args:
        model: What to train.
        recipe: The hyper-parameters.
        fresh: Parameters before the first epoch.
        start: Context of the first step.
        history: Where loss and criterion of each epoch are written, [2, epochs].
    """

    def __init__(self, model: Model, recipe: Recipe, fresh: Parameters, start: StepContext, history: Tensor):
        device, counts = start.engine.device, start.device_graph.device
        self._parameters = {name: value.to(device).requires_grad_() for name, value in fresh.items()}
        self._model, self._step, self._history = model, start, history
        self._best = EarlyStopping(self._parameters, recipe.patience) if recipe.patience and history.numel() else None
        if not history.numel():
            return
        rates = [learning_rate(recipe, epoch) for epoch in range(recipe.epochs)]
        self._rates: list[float] | Tensor = rates
        if counts.type == "cuda":
            self._step = dataclasses.replace(start, epoch=torch.zeros((), dtype=torch.int64, device=device))
            self._rates = torch.tensor(rates, device=device)
        decoupled = recipe.weight_decay_mode == "decoupled"
        self._adam = Adam(self._parameters.values(), recipe.weight_decay, decoupled, start.engine.dense)

    @property
    def final(self) -> Parameters:
        """The parameters of the best epoch with early stopping, else of the last."""
        chosen = self._parameters if self._best is None else self._best.parameters
        return {name: value.detach() for name, value in chosen.items()}

    @property
    def state(self) -> dict[str, Tensor]:
        """The state after the epochs so far, as views: to be copied, or copied into by ``load_state``."""
        state = {f"parameters.{name}": value.detach() for name, value in self._parameters.items()}
        state |= {f"adam.{i}": value for i, value in enumerate(self._adam.state)}
        if self._best is not None:
            state |= {f"best.{name}": value for name, value in self._best.state.items()}
        return state | {"written": self._history}

    def load_state(self, state: Mapping[str, Tensor], done: int) -> None:
        """Take over the state of another training after ``done`` epochs.

        Raises:
            DataError: The state does not fit this training.
        """
        epochs = self._history.shape[1]
        if not 0 <= done <= epochs:
            raise DataError(f"the checkpoint does not fit this training: it is of epoch {done} of {epochs}")
        if wrong := misfit(self.state, state):
            raise DataError(f"the checkpoint does not fit this training: {wrong}")
        self._put(state, done)

    @torch.no_grad()
    def _put(self, state: Mapping[str, Tensor], epoch: int | Tensor) -> None:
        for name, value in self.state.items():
            value.copy_(state[name])
        if isinstance(self._step.epoch, Tensor):
            self._step.epoch.copy_(torch.as_tensor(epoch))
        else:
            self._step = dataclasses.replace(self._step, epoch=epoch)

    def snapshot(self) -> Callable[[], None]:
        """Copy all that an epoch changes; the returned function restores it."""
        state = {name: value.clone() for name, value in self.state.items()}
        epoch = self._step.epoch.clone() if isinstance(self._step.epoch, Tensor) else self._step.epoch
        return lambda: self._put(state, epoch)

    def step(self) -> None:
        """One epoch."""
        model, parameters, step = self._model, self._parameters, self._step
        if isinstance(step.epoch, int) and step.epoch + 1 < step.epochs and step.device_graph.in_files:
            model.read_ahead(dataclasses.replace(step, epoch=step.epoch + 1))
        part = model.loss(parameters, step)
        gradients = torch.autograd.grad(part, list(parameters.values()), allow_unused=True)
        loss, *sums = step.workers.all_reduce(part.detach(), *(each for each in gradients if each is not None))
        summed = iter(sums)
        gradients = tuple(None if each is None else next(summed) for each in gradients)
        criterion = loss
        if self._best is not None:
            criterion = model.criterion(parameters, loss, step)
            self._best.update(criterion, parameters)
        self._adam.step(gradients, self._rate(step.epoch))
        model.update_ema(parameters, step.epoch, step.epochs)
        self._write(step.epoch, loss, criterion)
        self._next(step)

    def _rate(self, epoch: int | Tensor) -> float | Tensor:
        if isinstance(epoch, int):
            return self._rates[epoch]
        assert isinstance(self._rates, Tensor)
        return self._rates.index_select(0, epoch.reshape(1))[0]

    def _write(self, epoch: int | Tensor, loss: Tensor, criterion: Tensor) -> None:
        place = torch.as_tensor(epoch, device=self._history.device).reshape(1)
        self._history.index_copy_(1, place, torch.stack([loss, criterion])[:, None])

    def _next(self, step: StepContext) -> None:
        if isinstance(step.epoch, Tensor):
            step.epoch.add_(1)
        else:
            self._step = dataclasses.replace(step, epoch=step.epoch + 1)


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """The learning rate of an epoch: linear warm-up, then constant or half a cosine."""
    warm = recipe.warmup * recipe.epochs
    if epoch < warm:
        return recipe.learning_rate * epoch / warm
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (1 + math.cos(math.pi * (epoch - warm) / (recipe.epochs - warm))) / 2

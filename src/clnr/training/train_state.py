"""The state of one training: parameters, optimiser, early stopping; and one step of it, or of several as one CUDA graph."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from clnr.engine import Engine
from clnr.engine.dense import AdamTensors, Dense
from clnr.engine.streams import runs_without_sync
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.nn.objectives import StepContext

_EAGER_EPOCHS = 2


class Adam:
    """``Dense.adam`` with its state; parameters are changed in place."""

    def __init__(self, parameters: Iterable[Tensor], weight_decay: float, decoupled: bool, dense: Dense):
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


class TrainState:
    """The training of one seed.

    With a graph on a GPU, the epoch counter and the learning rate are tensors there, and nothing in a step waits for it.

    It begins with ``fresh`` parameters and the context ``start``; loss and criterion go to ``history``, [2, epochs].
    """

    def __init__(self, model: Model, recipe: Recipe, fresh: Parameters, start: StepContext, history: Tensor):
        device, counts = start.engine.device, start.device_graph.device
        self._parameters = {name: value.to(device).requires_grad_(model.learns(name)) for name, value in fresh.items()}
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

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor], epoch: int | Tensor) -> None:
        """Take over the state of this training after so many epochs."""
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
        return lambda: self.load_state(state, epoch)

    def step(self) -> None:
        """One epoch."""
        model, parameters, step = self._model, self._parameters, self._step
        if isinstance(step.epoch, int) and step.epoch + 1 < step.epochs and step.device_graph.in_blocks:
            model.read_ahead(dataclasses.replace(step, epoch=step.epoch + 1))
        part = model.loss(parameters, step)
        learned = {name: value for name, value in parameters.items() if value.requires_grad}
        gradients = torch.autograd.grad(part, list(learned.values()), allow_unused=True)
        found = {name: each for name, each in zip(learned, gradients, strict=True) if each is not None}
        loss, *sums = step.workers.all_reduce(part.detach(), *found.values())
        summed = dict(zip(found, sums, strict=True))
        criterion = loss
        if self._best is not None:
            criterion = model.criterion(parameters, loss, step)
            self._best.update(criterion, parameters)
        self._adam.step(map(summed.get, parameters), self._rate(step.epoch))
        model.update_ema(parameters, step.epoch, step.epochs)
        place = torch.as_tensor(step.epoch, device=self._history.device).reshape(1)
        self._history.index_copy_(1, place, torch.stack([loss, criterion])[:, None])
        if isinstance(step.epoch, Tensor):
            step.epoch.add_(1)
        else:
            self._step = dataclasses.replace(step, epoch=step.epoch + 1)

    def _rate(self, epoch: int | Tensor) -> float | Tensor:
        if isinstance(epoch, int):
            return self._rates[epoch]
        assert isinstance(self._rates, Tensor)
        return self._rates.index_select(0, epoch.reshape(1))[0]


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """The learning rate of an epoch: linear warm-up, then constant or half a cosine."""
    warm = recipe.warmup * recipe.epochs
    if epoch < warm:
        return recipe.learning_rate * epoch / warm
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (1 + math.cos(math.pi * (epoch - warm) / (recipe.epochs - warm))) / 2


class CudaGraphStep:
    """One epoch of all trainings at each call.

    On a GPU, after a few eager epochs the whole step is captured once and from then on replayed, which saves launching hundreds
    of small operations; the trainings are captured side by side, so that together they fill the GPU. A step that waits for the
    GPU cannot be captured: the last eager epoch finds that out, and then every epoch stays eager.
    """

    def __init__(self, train_states: Sequence[TrainState], engine: Engine, capture: bool):
        self._train_states, self._engine = train_states, engine
        self._eager = _EAGER_EPOCHS if capture and engine.device.type == "cuda" else None
        self._replay: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._eager == 0 and self._replay is None:
            self._replay = self._engine.capture([train_state.step for train_state in self._train_states])
        if self._replay is not None:
            self._replay()
            return
        done = 0
        if self._eager == 1:
            first = self._train_states[0]
            undo = first.snapshot()
            if runs_without_sync(first.step):
                done, self._eager = 1, 0
            else:
                undo()
                self._eager = None
        elif self._eager is not None:
            self._eager -= 1
        for train_state in self._train_states[done:]:
            train_state.step()

"""fit(): the only training loop."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from clnr.engine import Engine, Placed
from clnr.errors import TrainingError
from clnr.layers import Parameters
from clnr.methods import Model
from clnr.objectives import Lesson, Moment
from clnr.recipe import Recipe

Watch = Callable[[int, float], None]

_LOOK_EVERY = 10


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training leaves behind.

    Attributes:
        parameters: Ready to embed with.
        losses: One per epoch, on the CPU.
        seconds: Of the whole training.
        epoch_ms: Median of an epoch after warm-up; None where there was none.
    """

    parameters: Parameters
    losses: Tensor
    seconds: float
    epoch_ms: float | None


def fit(
    model: Model,
    engine: Engine,
    placed: Placed,
    recipe: Recipe,
    seed: int,
    watch: Watch | None = None,
    lesson: Lesson | None = None,
) -> Fitted:
    """Train a model on a placed graph.

    The loop never waits for the device: losses stay there, and what ``watch`` is told arrives when it arrives.

    Args:
        model: What to train; without an objective it stays as initialised.
        engine: Where.
        placed: The graph on that engine's device.
        recipe: Of this, the keys of ``recipe.TRAINING`` are read here.
        seed: Decides initial weights, views and sampled nodes.
        watch: Told the number of epochs done and the latest loss known, now and then.
        lesson: Labels, for an objective that is taught by them.

    Raises:
        TrainingError: A loss was not finite.
    """
    began = time.perf_counter()
    epochs = recipe.epochs if model.objective is not None else 0
    fresh = model.init(placed.graph.num_features, seed)
    parameters = {name: value.to(engine.device).requires_grad_() for name, value in fresh.items()}
    ledger = Ledger(epochs, engine.device)
    best = Best(parameters, recipe.patience) if recipe.patience and epochs else None
    if epochs and parameters:
        adam = torch.optim.Adam if recipe.decay == "l2" else torch.optim.AdamW
        optimiser = adam(parameters.values(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
        for epoch in range(epochs):
            optimiser.param_groups[0]["lr"] = learning_rate(recipe, epoch)
            optimiser.zero_grad()
            moment = Moment(engine, placed, seed, epoch, lesson)
            loss = model.loss(parameters, moment)
            criterion = loss.detach() if best is None else model.criterion(parameters, loss, moment)
            if best is not None:
                best.offer(criterion, parameters)
            loss.backward()
            optimiser.step()
            model.advance(parameters, (epoch + 1) / epochs)
            known = ledger.write(epoch, loss.detach(), criterion)
            if known is not None:
                losses, criteria = known
                latest = float(losses[-1])
                if not math.isfinite(latest):
                    _check(losses, recipe)
                if watch is not None:
                    watch(epoch + 1, latest)
                if ended(criteria, recipe.patience) is not None:
                    break
    losses, criteria = ledger.close()
    losses = losses[: ended(criteria, recipe.patience)]
    _check(losses, recipe)
    final = parameters if best is None else best.parameters
    settled = model.settle({name: value.detach() for name, value in final.items()}, engine, placed)
    return Fitted(settled, losses, time.perf_counter() - began, ledger.epoch_ms())


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """The rate of one epoch: rising in a straight line during the warm-up, then constant or falling by half a cosine."""
    warm = recipe.warmup * recipe.epochs
    if epoch < warm:
        return recipe.learning_rate * epoch / warm
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (1 + math.cos(math.pi * (epoch - warm) / (recipe.epochs - warm))) / 2


def ended(criteria: Tensor, patience: int) -> int | None:
    """After how many epochs a training with patience ended: ``patience`` past the best so far; None if it has not."""
    if not patience or not len(criteria):
        return None
    # The first of equals is the best, as on the device: a later one is not lower. NaN is never lower.
    lowest = criteria.nan_to_num(math.inf).cummin(0).values
    fresh = torch.ones(len(lowest), dtype=torch.bool)
    fresh[1:] = lowest[1:] < lowest[:-1]
    epoch = torch.arange(len(lowest))
    waited = epoch - torch.where(fresh, epoch, 0).cummax(0).values
    over = (waited >= patience).nonzero()
    return int(over[0]) + 1 if len(over) else None


class Best:
    """The parameters of the lowest criterion, chosen on the device; nothing counts any more once patience has run out.

    The host hears of the end some epochs late, so that training may go on a little in vain; what is kept does not change.
    """

    def __init__(self, parameters: Parameters, patience: int):
        self.parameters = {name: value.detach().clone() for name, value in parameters.items()}
        device = next(iter(parameters.values())).device
        self._patience = patience
        self._lowest = torch.tensor(torch.inf, device=device)
        self._waited = torch.zeros((), dtype=torch.int64, device=device)

    @torch.no_grad()
    def offer(self, criterion: Tensor, parameters: Parameters) -> None:
        better = (criterion < self._lowest) & (self._waited < self._patience)
        self._lowest = torch.where(better, criterion, self._lowest)
        over = self._waited >= self._patience
        self._waited = torch.where(better, 0, self._waited + 1).where(~over, self._waited)
        for name, value in parameters.items():
            self.parameters[name] = torch.where(better, value, self.parameters[name])


def _check(losses: Tensor, recipe: Recipe) -> None:
    broken = (~losses.isfinite()).nonzero()
    if len(broken):
        epoch = int(broken[0])
        where = f"at epoch {epoch + 1} of {recipe.epochs}"
        raise TrainingError(f"the loss became {float(losses[epoch])} {where}, so training stopped; recipe: {recipe}")


class Ledger:
    """Losses, criteria and times of epochs, kept on the device and read without waiting for it."""

    def __init__(self, epochs: int, device: torch.device):
        self._written = torch.zeros(2, epochs, device=device)
        self._cuda = device.type == "cuda"
        self._host = torch.zeros(2, epochs, pin_memory=self._cuda)
        self._arrived: tuple[int, torch.cuda.Event] | None = None
        self._marks: list[float | torch.cuda.Event] = []
        self._mark()

    def _mark(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def write(self, epoch: int, loss: Tensor, criterion: Tensor) -> Tensor | None:
        """Note an epoch's loss and criterion; returns all known by now on the host, two rows, if there is news."""
        self._written[0, epoch] = loss
        self._written[1, epoch] = criterion
        self._mark()
        if not self._cuda:
            return self._written[:, : epoch + 1]
        known = None
        if self._arrived is not None and self._arrived[1].query():
            known = self._host[:, : self._arrived[0]].clone()
            self._arrived = None
        if self._arrived is None and (epoch + 1) % _LOOK_EVERY == 0:
            self._host.copy_(self._written, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self._arrived = (epoch + 1, event)
        return known

    def close(self) -> Tensor:
        """All that was written, after the last epoch; here, and only here, the device is waited for."""
        return self._written[:, : len(self._marks) - 1].cpu()

    def epoch_ms(self) -> float | None:
        """Median time of an epoch, the first tenth (at least one, at most 20) left out as warm-up."""
        times = [_between(a, b) for a, b in itertools.pairwise(self._marks)]
        warm_up = min(max(1, math.ceil(len(times) / 10)), 20)
        return statistics.median(times[warm_up:] or times) if times else None


def _between(a: float | torch.cuda.Event, b: float | torch.cuda.Event) -> float:
    if isinstance(a, float) and isinstance(b, float):
        return (b - a) * 1e3
    return float(a.elapsed_time(b))  # type: ignore[union-attr, arg-type]

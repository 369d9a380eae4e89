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

from clnr.encoders import Parameters
from clnr.engine import Engine, Placed
from clnr.errors import TrainingError
from clnr.methods import Model
from clnr.objectives import Moment
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


def fit(model: Model, engine: Engine, placed: Placed, recipe: Recipe, seed: int, watch: Watch | None = None) -> Fitted:
    """Train a model on a placed graph.

    The loop never waits for the device: losses stay there, and what ``watch`` is told arrives when it arrives.

    Args:
        model: What to train; without an objective it stays as initialised.
        engine: Where.
        placed: The graph on that engine's device.
        recipe: ``epochs``, ``learning_rate`` and ``weight_decay`` are read here.
        seed: Decides initial weights, views and sampled nodes.
        watch: Told the number of epochs done and the latest loss known, now and then.

    Raises:
        TrainingError: A loss was not finite.
    """
    began = time.perf_counter()
    epochs = recipe.epochs if model.objective is not None else 0
    fresh = model.init(placed.graph.num_features, seed)
    parameters = {name: value.to(engine.device).requires_grad_() for name, value in fresh.items()}
    ledger = Ledger(epochs, engine.device)
    if epochs and parameters:
        optimiser = torch.optim.Adam(parameters.values(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
        for epoch in range(epochs):
            optimiser.zero_grad()
            loss = model.loss(parameters, Moment(engine, placed, seed, epoch))
            loss.backward()
            optimiser.step()
            known = ledger.write(epoch, loss)
            if known is not None:
                latest = float(known[-1])
                if not math.isfinite(latest):
                    _check(known, recipe)
                if watch is not None:
                    watch(epoch + 1, latest)
    losses = ledger.close()
    _check(losses, recipe)
    settled = model.settle({name: value.detach() for name, value in parameters.items()}, engine, placed)
    return Fitted(settled, losses, time.perf_counter() - began, ledger.epoch_ms())


def _check(losses: Tensor, recipe: Recipe) -> None:
    broken = (~losses.isfinite()).nonzero()
    if len(broken):
        epoch = int(broken[0])
        where = f"at epoch {epoch + 1} of {recipe.epochs}"
        raise TrainingError(f"the loss became {float(losses[epoch])} {where}, so training stopped; recipe: {recipe}")


class Ledger:
    """Losses and times of epochs, kept on the device and read without waiting for it."""

    def __init__(self, epochs: int, device: torch.device):
        self._losses = torch.zeros(epochs, device=device)
        self._cuda = device.type == "cuda"
        self._host = torch.zeros(epochs, pin_memory=self._cuda)
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

    def write(self, epoch: int, loss: Tensor) -> Tensor | None:
        """Note an epoch's loss; returns all losses known by now on the host, if there is news."""
        self._losses[epoch] = loss.detach()
        self._mark()
        if not self._cuda:
            return self._losses[: epoch + 1]
        known = None
        if self._arrived is not None and self._arrived[1].query():
            known = self._host[: self._arrived[0]].clone()
            self._arrived = None
        if self._arrived is None and (epoch + 1) % _LOOK_EVERY == 0:
            self._host.copy_(self._losses, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self._arrived = (epoch + 1, event)
        return known

    def close(self) -> Tensor:
        """All losses, after the last epoch; here, and only here, the device is waited for."""
        return self._losses.cpu()

    def epoch_ms(self) -> float | None:
        """Median time of an epoch, the first tenth (at least one, at most 20) left out as warm-up."""
        times = [_between(a, b) for a, b in itertools.pairwise(self._marks)]
        warm_up = min(max(1, math.ceil(len(times) / 10)), 20)
        return statistics.median(times[warm_up:] or times) if times else None


def _between(a: float | torch.cuda.Event, b: float | torch.cuda.Event) -> float:
    if isinstance(a, float) and isinstance(b, float):
        return (b - a) * 1e3
    return float(a.elapsed_time(b))  # type: ignore[union-attr, arg-type]

"""fit(): the only training loop."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
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
_EAGER = 3


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
    fresh = model.init(placed.graph.num_features, seed)
    parameters = {name: value.to(engine.device).requires_grad_() for name, value in fresh.items()}
    epochs = recipe.epochs if model.objective is not None and parameters else 0
    ledger = Ledger(epochs, engine.device)
    best = Best(parameters, recipe.patience) if recipe.patience and epochs else None
    if epochs:
        with _own_stream(engine.device):
            start = Moment(engine, placed, seed, 0, epochs, lesson)
            _train(Step(model, recipe, parameters, ledger, best, start), ledger, recipe, watch)
    losses, criteria = ledger.close()
    losses = losses[: ended(criteria, recipe.patience)]
    _check(losses, recipe)
    final = parameters if best is None else best.parameters
    settled = model.settle({name: value.detach() for name, value in final.items()}, engine, placed)
    return Fitted(settled, losses, time.perf_counter() - began, ledger.epoch_ms())


def _train(step: Step, ledger: Ledger, recipe: Recipe, watch: Watch | None) -> None:
    """All epochs, or as many as patience lasts for."""
    for epoch in range(recipe.epochs):
        step()
        known = ledger.look(epoch + 1)
        if known is not None:
            losses, criteria = known
            over = ended(criteria, recipe.patience)
            if not math.isfinite(losses[-1]):
                _check(losses[:over], recipe)
            if watch is not None:
                watch(epoch + 1, float(losses[-1]))
            if over is not None:
                return


class Step:
    """One epoch of training at each call.

    On a GPU, the epoch is a counter there, as are losses and the learning rate. After a few epochs the whole step is recorded
    once and from then on played back, which spares the launching of hundreds of small operations. A step that waits for the
    GPU cannot be recorded: the last epoch before finds out, and what waits is then computed afresh each time.
    """

    def __init__(self, model: Model, recipe: Recipe, parameters: Parameters, ledger: Ledger, best: Best | None, start: Moment):
        device = start.engine.device
        self._model, self._parameters, self._ledger, self._best = model, parameters, ledger, best
        self._epochs = recipe.epochs
        self._rates = [learning_rate(recipe, epoch) for epoch in range(recipe.epochs)]
        self._eager = recipe.epochs
        self._records = False
        self._recorded: torch.cuda.CUDAGraph | None = None
        self._moment = start
        rate: float | Tensor = recipe.learning_rate
        there = device.type == "cuda"
        if there:
            self._table = torch.tensor(self._rates, device=device)
            self._moment = dataclasses.replace(start, epoch=torch.zeros((), dtype=torch.int64, device=device))
            rate = torch.tensor(rate, device=device)
            self._records = model.captures
            self._eager = _EAGER if self._records else recipe.epochs
        adam = torch.optim.Adam if recipe.decay == "l2" else torch.optim.AdamW
        self._optimiser = adam(parameters.values(), lr=rate, weight_decay=recipe.weight_decay, capturable=there, fused=True)

    def __call__(self) -> None:
        if self._eager:
            self._eager -= 1
            if self._eager or not self._records:
                self._step()
            elif not self._step_without_waiting():
                self._eager = self._epochs
                self._step()
            return
        if self._recorded is None:
            self._recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._recorded, stream=torch.cuda.current_stream()):
                self._step()
        self._recorded.replay()

    def _step_without_waiting(self) -> bool:
        """A step in which torch objects to what waits for the GPU; False if something did, with no parameter changed yet."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That this mode is young.
            torch.cuda.set_sync_debug_mode("error")
        try:
            self._step()
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            return False
        finally:
            torch.cuda.set_sync_debug_mode(before)
        return True

    def _step(self) -> None:
        model, parameters, moment = self._model, self._parameters, self._moment
        self._set_rate(moment.epoch)
        self._optimiser.zero_grad()
        loss = model.loss(parameters, moment)
        loss.backward()
        criterion = loss.detach()
        if self._best is not None:
            criterion = model.criterion(parameters, criterion, moment)
            self._best.offer(criterion, parameters)
        self._optimiser.step()
        model.advance(parameters, (moment.epoch + 1) / self._epochs)
        self._ledger.write(moment.epoch, loss.detach(), criterion)
        self._next(moment)

    def _set_rate(self, epoch: int | Tensor) -> None:
        group = self._optimiser.param_groups[0]
        if isinstance(epoch, Tensor):
            group["lr"].copy_(self._table.index_select(0, epoch.reshape(1))[0])
        else:
            group["lr"] = self._rates[epoch]

    def _next(self, moment: Moment) -> None:
        if isinstance(moment.epoch, Tensor):
            moment.epoch.add_(1)
        else:
            self._moment = dataclasses.replace(moment, epoch=moment.epoch + 1)


@contextlib.contextmanager
def _own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, work apart from the default stream, which cannot be recorded; done when the block is."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


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
    # Better is what is lower than all before, as on the device: an equal one is not, and NaN never is.
    known = torch.where(criteria.isnan(), math.inf, criteria)
    before = torch.cat([torch.tensor([math.inf]), known.cummin(0).values[:-1]])
    epoch = torch.arange(len(known))
    waited = epoch - torch.where(known < before, epoch, -1).cummax(0).values
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
        """Note an epoch's criterion, with the parameters that it was measured with."""
        going = self._waited < self._patience
        better = (criterion < self._lowest) & going
        self._lowest.copy_(torch.where(better, criterion, self._lowest))
        self._waited.copy_(torch.where(better, 0, self._waited + going))
        for name, value in parameters.items():
            self.parameters[name].copy_(torch.where(better, value, self.parameters[name]))


def _check(losses: Tensor, recipe: Recipe) -> None:
    broken = (~losses.isfinite()).nonzero()
    if len(broken):
        epoch = int(broken[0])
        where = f"at epoch {epoch + 1} of {recipe.epochs}"
        raise TrainingError(f"the loss became {float(losses[epoch])} {where}, so training stopped; {advice(recipe)}")


def advice(recipe: Recipe) -> str:
    """What to do about numbers that are not finite."""
    return f"try a smaller learning_rate than {recipe.learning_rate:g}"


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

    def write(self, epoch: int | Tensor, loss: Tensor, criterion: Tensor) -> None:
        """Note an epoch's loss and criterion."""
        place = torch.as_tensor(epoch, device=self._written.device).reshape(1)
        self._written.index_copy_(1, place, torch.stack([loss, criterion])[:, None])

    def look(self, done: int) -> Tensor | None:
        """After so many epochs: all losses and criteria known by now on the host, two rows, if there is news."""
        self._mark()
        if not self._cuda:
            return self._written[:, :done]
        known = None
        if self._arrived is not None and self._arrived[1].query():
            known = self._host[:, : self._arrived[0]].clone()
            self._arrived = None
        if self._arrived is None and done % _LOOK_EVERY == 0:
            self._host.copy_(self._written, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self._arrived = (done, event)
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

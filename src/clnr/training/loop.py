"""fit(): the only training loop."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clnr.engine import DeviceGraph, Engine
from clnr.errors import TrainingError
from clnr.methods.model import Model
from clnr.methods.recipe import Recipe
from clnr.nn.layers import Parameters
from clnr.nn.objectives import StepContext, Supervision
from clnr.support.processes.workers import ALONE, Workers
from clnr.support.stage_clock import stage
from clnr.training.checkpoint import Checkpoint
from clnr.training.step_work import Size, step_work
from clnr.training.train_state import CudaGraphStep, TrainState, ended

ProgressCallback = Callable[[int, float], None]

_EPOCHS_PER_POLL = 10


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The result of the training loop: parameters and what was measured; ``TrainedEmbedding`` adds the embedding.

    Attributes:
        parameters: Ready to embed with.
        losses: One per epoch, on the CPU.
        seconds: Of the whole training, the read-out included; with several in parallel, the share of this one.
        epoch_ms: Median of an epoch after warm-up, likewise; None if there was none.
        parallel_seeds: How many seeds were trained in parallel.
        threads: How many threads of the CPU the training took; None on a GPU.
    """

    parameters: Parameters
    losses: Tensor
    seconds: float
    epoch_ms: float | None
    parallel_seeds: int = 1
    threads: int | None = None


class MetricBuffer:
    """Losses and criteria of the epochs of several trainings, and the times of the epochs.

    They are written on the device to ``history``: [trainings, 2, epochs]; those ``begun`` were done before, in another process.
    Of a GPU the host reads what was there ten epochs ago, which is what all processes of a training know: they stop alike.
    """

    def __init__(self, epochs: int, train_states: int, device: torch.device, begun: int = 0):
        self._begun = begun
        self.history = torch.zeros(train_states, 2, epochs, device=device)
        self._cuda = device.type == "cuda"
        self._host = torch.zeros(train_states, 2, epochs, pin_memory=self._cuda)
        self._arriving: tuple[int, torch.cuda.Event] | None = None
        self._marks: list[float | torch.cuda.Event] = []
        self._mark()

    def _mark(self) -> None:
        if self._cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def poll(self, done: int) -> Tensor | None:
        """After ``done`` epochs: all losses and criteria that have reached the host, if there are new ones."""
        self._mark()
        if not self._cuda:
            return self.history[..., :done]
        known = None
        if done % _EPOCHS_PER_POLL == 0:
            if self._arriving is not None:
                before, event = self._arriving
                event.synchronize()
                known = self._host[..., :before].clone()
            self._host.copy_(self.history, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self._arriving = (done, event)
        return known

    def close(self) -> Tensor:
        """The whole history, after the last epoch; only here the device is waited for."""
        return self.history[..., : self._begun + len(self._marks) - 1].cpu()

    def epoch_ms(self) -> float | None:
        """Median time of an epoch, without the first tenth (at least one, at most 20) as warm-up."""
        times = [_between(a, b) for a, b in itertools.pairwise(self._marks)]
        warm_up = min(max(1, math.ceil(len(times) / 10)), 20)
        return statistics.median(times[warm_up:] or times) if times else None


def _between(a: float | torch.cuda.Event, b: float | torch.cuda.Event) -> float:
    if isinstance(a, float) and isinstance(b, float):
        return (b - a) * 1e3
    return float(a.elapsed_time(b))  # type: ignore[union-attr, arg-type]


def fit(
    model: Model,
    engine: Engine,
    device_graph: DeviceGraph,
    recipe: Recipe,
    seed: int,
    progress: ProgressCallback | None = None,
    supervision: Supervision | None = None,
    checkpoint: Checkpoint | None = None,
    workers: Workers = ALONE,
) -> TrainingResult:
    """``fit_all`` of one training on a graph on the engine's device, by all workers that share it; an error is raised."""
    start = StepContext(engine, device_graph, seed, 0, recipe.epochs, supervision, workers)
    (fitted,) = fit_all(model, recipe, [start], progress, checkpoint)
    if isinstance(fitted, TrainingError):
        raise fitted
    return fitted


def fit_all(
    model: Model,
    recipe: Recipe,
    starts: Sequence[StepContext],
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[TrainingResult | TrainingError]:
    """Train a model for several seeds in parallel, each with the result that it has alone, or its error.

    The loop never waits for the last epochs: losses stay on the device, and ``progress`` is called when they arrive.

    Args:
        model: What to train; without an objective its parameters stay as initialised.
        recipe: Of this, the keys of ``recipe.TRAINING`` are read here, but for the noise, which is in the graph by now.
        starts: The context of each first step, all on one engine. Seeds decide initial weights, views and sampled nodes.
        progress: Called now and then with the number of epochs done and the latest known loss of the first one.
        checkpoint: Saves the state of a single training now and then; it resumes from what that has. The first worker's.
    """
    engine, device_graph = starts[0].engine, starts[0].device_graph
    size = Size(device_graph.graph.num_nodes, device_graph.graph.num_edges, device_graph.num_features, 0)
    work = step_work(len(model.views), model.objective, recipe, size)
    with engine.use_threads(work.seconds) as used:
        began = time.perf_counter()
        train_states, buffer = _train(model, recipe, starts, progress, checkpoint)
        history, share, epoch_ms = buffer.close(), len(starts), buffer.epoch_ms()
        fitted: list[tuple[Parameters, Tensor] | TrainingError] = []
        for start, train_state, (losses, criteria) in zip(starts, train_states, history, strict=True):
            losses = losses[: ended(criteria, recipe.patience)]
            failure = _failure(losses, recipe)
            with stage("fit the read-out"):
                fitted.append(failure or (model.finalize(train_state.final, engine, start.device_graph), losses))
        seconds = (time.perf_counter() - began) / share
    epoch_ms, threads = None if epoch_ms is None else epoch_ms / share, used if engine.device.type == "cpu" else None
    return [
        each if isinstance(each, TrainingError) else TrainingResult(*each, seconds, epoch_ms, share, threads) for each in fitted
    ]


def _train(
    model: Model,
    recipe: Recipe,
    starts: Sequence[StepContext],
    progress: ProgressCallback | None,
    checkpoint: Checkpoint | None,
) -> tuple[list[TrainState], MetricBuffer]:
    """The epochs of ``fit_all``, and nothing after them."""
    engine, workers = starts[0].engine, starts[0].workers
    with torch.device(engine.device):
        fresh = [model.init(start.device_graph.num_features, start.seed) for start in starts]
    learns = model.objective is not None and any(fresh)
    begun, state = (checkpoint.load() if checkpoint is not None and learns else None) or (0, None)
    begun = workers.broadcast_object(begun)
    buffer = MetricBuffer(recipe.epochs if learns else 0, len(starts), engine.device, begun)
    train_states = [TrainState(model, recipe, *each) for each in zip(fresh, starts, buffer.history, strict=True)]
    if begun or state is not None:
        # Only the first worker has the state yet.
        train_states[0].load_state(train_states[0].state if state is None else state, begun)
        workers.broadcast(list(train_states[0].state.values()))
    if learns:
        on_device = starts[0].device_graph.device == engine.device
        step = CudaGraphStep(train_states, engine, workers.alone and on_device and model.encoder.pure)
        with engine.own_stream(), engine.reading_ahead(starts[0].device_graph):
            for done in range(begun + 1, recipe.epochs + 1):
                step()
                if checkpoint is not None and checkpoint.is_due():
                    checkpoint.save(done, train_states[0].state)
                history = buffer.poll(done)
                if history is None:
                    continue
                if progress is not None and history[0, 0, -1].isfinite():
                    progress(done, float(history[0, 0, -1]))
                # All have diverged, or run out of patience.
                if all(not math.isfinite(losses[-1]) or ended(criteria, recipe.patience) for losses, criteria in history):
                    break
    return train_states, buffer


def _failure(losses: Tensor, recipe: Recipe) -> TrainingError | None:
    broken = (~losses.isfinite()).nonzero()
    if not len(broken):
        return None
    epoch = int(broken[0])
    where = f"at epoch {epoch + 1} of {recipe.epochs}"
    return TrainingError(f"the loss became {float(losses[epoch])} {where}, so training stopped; {advice(recipe)}")


def advice(recipe: Recipe) -> str:
    """What to try if a value is not finite."""
    return f"try a smaller learning_rate than {recipe.learning_rate:g}"

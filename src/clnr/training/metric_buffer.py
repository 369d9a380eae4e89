"""Losses and criteria of all epochs, written on the device and read without waiting for it."""

from __future__ import annotations

import itertools
import math
import statistics
import time

import torch
from torch import Tensor

_EPOCHS_PER_POLL = 10


class MetricBuffer:
    """Losses and criteria of the epochs of several trainings, and the times of the epochs.

    Attributes:
        history: Loss and criterion of each epoch, on the device: [trainings, 2, epochs].

    Args:
        epochs: Of the whole training.
        train_states: How many trainings.
        device: Where they are.
        begun: Epochs done before, in another process.
        same_everywhere: Whether all processes of a training are to know the same after the same epoch, so that they stop alike.
    """

    def __init__(self, epochs: int, train_states: int, device: torch.device, begun: int = 0, same_everywhere: bool = False):
        self._begun, self._same_everywhere = begun, same_everywhere
        self.history = torch.zeros(train_states, 2, epochs, device=device)
        self._cuda = device.type == "cuda"
        self._host = torch.zeros(train_states, 2, epochs, pin_memory=self._cuda)
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

    def poll(self, done: int) -> Tensor | None:
        """After ``done`` epochs: all losses and criteria that have reached the host, if there are new ones."""
        self._mark()
        if not self._cuda:
            return self.history[..., :done]
        known = None
        if self._arrived is not None and self._has_arrived(done, self._arrived[1]):
            known = self._host[..., : self._arrived[0]].clone()
            self._arrived = None
        if self._arrived is None and done % _EPOCHS_PER_POLL == 0:
            self._host.copy_(self.history, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            self._arrived = (done, event)
        return known

    def _has_arrived(self, done: int, event: torch.cuda.Event) -> bool:
        if not self._same_everywhere:
            return event.query()
        if done % _EPOCHS_PER_POLL:
            return False
        event.synchronize()
        return True

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

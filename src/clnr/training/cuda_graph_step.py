"""One epoch of all trainings, on a GPU captured once as a CUDA graph and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import torch

from clnr.engine import Engine, Lanes, recorded
from clnr.training.train_state import TrainState

_EAGER = 2


class CudaGraphStep:
    """One epoch of all trainees at each call.

    On a GPU, after a few epochs the whole step is recorded once and from then on played back, which spares the launching of
    hundreds of small operations; trainees are recorded in lanes of their own, so that they fill the chip together. A step that
    waits for the GPU cannot be recorded: the last epoch before finds out, and all are then computed afresh each time.
    """

    def __init__(self, train_states: Sequence[TrainState], engine: Engine, cuda_graph_safe: bool):
        self._train_states, self._device = train_states, engine.device
        self._eager = _EAGER if cuda_graph_safe and engine.device.type == "cuda" else None
        self._play: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._eager == 0 and self._play is None:
            self._play = recorded(self._side_by_side)
        if self._play is not None:
            self._play()
            return
        done = 0
        if self._eager == 1 and self._without_waiting():
            done, self._eager = 1, 0
        elif self._eager is not None:
            self._eager = None if self._eager == 1 else self._eager - 1
        for train_state in self._train_states[done:]:
            train_state.step()

    def _side_by_side(self) -> None:
        with Lanes(self._device, len(self._train_states)) as lanes:
            for index, train_state in enumerate(self._train_states):
                with lanes.lane(index):
                    train_state.step()

    def _without_waiting(self) -> bool:
        """A step in which torch objects to what waits for the GPU; False if something did, and all is as it was before it."""
        undo, before = self._train_states[0].snapshot(), torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That this mode is young.
            torch.cuda.set_sync_debug_mode("error")
        try:
            self._train_states[0].step()
            return True
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
        finally:
            torch.cuda.set_sync_debug_mode(before)
        undo()
        return False

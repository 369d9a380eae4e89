"""One epoch of all trainings; on a GPU captured once as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clnr.engine import Engine
from clnr.training.train_state import TrainState

_EAGER_EPOCHS = 2


class CudaGraphStep:
    """One epoch of all trainings at each call.

    On a GPU, after a few eager epochs the whole step is captured once and from then on replayed, which saves launching hundreds
    of small operations; the trainings are captured side by side, so that together they fill the GPU. A step that waits for the
    GPU cannot be captured: the last eager epoch finds that out, and then every epoch stays eager.
    """

    def __init__(self, train_states: Sequence[TrainState], engine: Engine, capture: bool):
        self._train_states, self._engine = train_states, engine
        self._eager = _EAGER_EPOCHS if capture and engine.cuda_graphs else None
        self._replay: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._eager == 0 and self._replay is None:
            self._replay = self._engine.capture([train_state.step for train_state in self._train_states])
        if self._replay is not None:
            self._replay()
            return
        done = 0
        if self._eager == 1 and self._first_runs_without_sync():
            done, self._eager = 1, 0
        elif self._eager is not None:
            self._eager = None if self._eager == 1 else self._eager - 1
        for train_state in self._train_states[done:]:
            train_state.step()

    def _first_runs_without_sync(self) -> bool:
        """Whether a step of the first training never waits for the GPU; if it does, the training is as it was before."""
        undo = self._train_states[0].snapshot()
        if self._engine.runs_without_sync(self._train_states[0].step):
            return True
        undo()
        return False

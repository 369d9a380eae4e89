"""What an engine is: the few hot operations on a view of a graph."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TypeVar

import torch
from torch import Tensor

from clnr.engine.cpu.threads import threads_for, usable_threads, use_threads
from clnr.engine.dense import PLAIN, Dense
from clnr.engine.operators import Operators, SelectedOperators
from clnr.engine.streams import Streams, capture, own_stream
from clnr.engine.view import DeviceGraph, View
from clnr.graph import Graph
from clnr.support.machine.devices import Asked

Result = TypeVar("Result")


def _set_up(device: torch.device) -> None:
    # Whoever uses the device next has the error, if there is one.
    with suppress(RuntimeError):
        one = torch.ones(1, 1, device=device)
        one @ one  # Loads the library of matrix products.


class Engine(ABC):
    """The hot operations on one device. All engines compute the same function as the reference.

    CUDA streams and graphs are used only here: models and trainings just say what may run side by side or be captured.
    """

    name: str
    device: torch.device
    dtype: torch.dtype = torch.float32
    """The type of rows inside an encoder, and of what dense products multiply; parameters and sums are float32."""
    parallel_seeds: int = 1
    """How many trainings side by side keep the device busy."""
    dense: Dense = PLAIN
    """Its dense operations."""
    asked: Asked = Asked()
    """What was asked for when it was chosen."""
    threads: int | None = None
    """How many threads of the CPU to take; None for as many as are worth it."""
    most_threads: int | None = None
    """How many it takes at most where none are asked for; None for as many as are usable."""

    @property
    def precision(self) -> str:
        """The name of ``dtype``."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def float32(self) -> Engine:
        if self.dtype == torch.float32:
            return self
        same = copy.copy(self)
        same.dtype = torch.float32
        return same

    @property
    def choices(self) -> dict[str, str | int | None]:
        """What was asked for and what was chosen: what a run that is resumed takes again, so that its bits stay the same."""
        most = self._usable_threads if self.device.type == "cpu" and self.threads is None else None
        return {"device": self.device.type, "precision": self.precision, "threads": self.threads, "most_threads": most}

    @property
    def _usable_threads(self) -> int:
        return min(usable_threads(), self.most_threads or usable_threads())

    gathers_rows = True
    """Whether it copies the rows of a file that a product with them takes."""

    def use_threads(self, seconds: float | None = None) -> AbstractContextManager[int | None]:
        """Run a block with the threads asked for, or as many as are usable; on a GPU it has those that there are.

        Where it is known how many ``seconds`` one thread takes for a step of the block, a short one has fewer.
        """
        if self.threads is not None:
            return use_threads(self.threads)
        if self.device.type != "cpu":
            return nullcontext()
        most = self._usable_threads
        return use_threads(most if seconds is None else threads_for(seconds, most))

    def wake(self) -> None:
        """Begin to set up the device while the caller goes on: a GPU takes a second, and a CPU nothing."""
        if self.device.type == "cuda":
            threading.Thread(target=_set_up, args=(self.device,), daemon=True).start()

    @abstractmethod
    def to_device(self, graph: Graph, loop_weight: float = 1.0) -> DeviceGraph:
        """A graph on this engine's device, to which its edges and features are moved when they are first asked for."""

    @abstractmethod
    def operators(self, view: View, streams: Streams | None = None) -> Operators:
        """The view's linear maps; those of views in the same ``streams`` share products."""

    def sampled_operators(
        self, view: View, nodes: Tensor, streams: Streams | None = None, draws: Tensor | None = None
    ) -> Operators:
        """The maps of a view where the rows of some distinct nodes, drawn uniformly, are wanted.

        See ``Operators.within``. Where it is known what ``nodes`` may be, in other epochs, that is a row of ``draws``.

        By default all rows are computed, and those of other nodes are left out at the end.
        """
        return SelectedOperators(self.operators(view.bounded(), streams), nodes)

    def map_views(
        self,
        function: Callable[[Operators, dict[str, Tensor], int], Result],
        views: Sequence[View],
        parameters: Mapping[str, Tensor],
        nodes: Tensor | None = None,
        sampled: bool = False,
        draws: Tensor | None = None,
    ) -> list[Result]:
        """``function(operators, parameters, index)`` of each view of one graph, side by side where that is faster.

        All views read the ``parameters``, which get gradients from all of them, and ``nodes``. Where a step is ``sampled``,
        only the rows of these nodes are wanted; ``draws`` are such nodes in all epochs, where known.
        """
        streams = self.streams(views[0].device_graph, len(views))
        # Each view's gradients arrive in its own stream. Through aliases made here they are added up in this one.
        aliases = {name: value.view_as(value) for name, value in parameters.items()}
        for tensor in [*([] if nodes is None else [nodes]), *(each for view in views for each in view.tensors)]:
            streams.record(tensor)
        for view in views:
            self.prepare(view)
        with streams:
            operators = []
            for index, view in enumerate(views):
                with streams.stream(index):
                    if sampled and nodes is not None:
                        operators.append(self.sampled_operators(view, nodes, streams, draws))
                    else:
                        operators.append(self.operators(view, streams))
        with streams:
            results = []
            for index, each in enumerate(operators):
                with streams.stream(index):
                    results.append(function(each, aliases, index))
        return results

    def prepare(self, view: View) -> None:  # noqa: B027
        """Compute what views of a graph share, before they part into streams that do not wait for each other."""

    def reading_ahead(self, device_graph: DeviceGraph) -> AbstractContextManager[None]:
        """In this block, ``read_ahead`` reads what coming steps on a graph in blocks need."""
        return nullcontext()

    def read_ahead(self, views: Sequence[View], nodes: Tensor) -> None:  # noqa: B027
        """Begin to read what views of one graph will be asked for of some nodes."""

    def streams(self, device_graph: DeviceGraph, count: int) -> Streams:
        """Streams for ``count`` views of a graph; by default all in the current one."""
        return Streams()

    def own_stream(self) -> AbstractContextManager[None]:
        """Run a block on a stream apart from a GPU's default one, which cannot be captured; on a CPU, just run it."""
        return own_stream(self.device)

    def capture(self, steps: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Capture steps that do not depend on each other, each in its own stream, as one CUDA graph; returns its replay.

        Inside ``own_stream``, after each step has run at least once.
        """

        def side_by_side() -> None:
            with Streams(self.device, len(steps)) as streams:
                for index, step in enumerate(steps):
                    with streams.stream(index):
                        step()

        return capture(side_by_side)

    @abstractmethod
    def nt_xent(self, rows: Tensor, temperature: float) -> Tensor:
        """NT-Xent of rows scaled to length 1: the first half is one view's, the second the other's, in the same order."""

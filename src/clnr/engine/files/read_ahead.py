"""What the next step of a training needs of a graph in files, read by a thread while this step computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clnr.engine.cpu.frontier import Frontier
from clnr.engine.view import View
from clnr.graph.csr import Array

MakeFrontier = Callable[[View, Array, set[tuple[str, int]]], Frontier]


class _Ahead(NamedTuple):
    view: View
    nodes: Array
    frontier: Future[Frontier]


class ReadAhead:
    """Frontiers of coming steps; each is given once, to whoever asks for the same view of the same nodes.

    A frontier is read as far as those of the steps before were asked. What it holds does not depend on who reads it.

    Args:
        unread: Makes a frontier of some nodes of a view, which notes what it is asked for.
    """

    def __init__(self, unread: MakeFrontier):
        self._unread = unread
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="clnr-ahead")
        self._ahead: list[_Ahead] = []
        self._asked: set[tuple[str, int]] = set()

    def begin(self, views: Sequence[View], nodes: Tensor) -> None:
        """Begin to read what views of a step need for some nodes."""
        wanted, threads = nodes.numpy(force=True), torch.get_num_threads()
        coming = [_Ahead(view, wanted, self._thread.submit(self._read, view, wanted, threads)) for view in views]
        # Of a step that was never taken, nothing is kept for long.
        self._ahead = self._ahead[-len(views) :] + coming

    def _read(self, view: View, nodes: Array, threads: int) -> Frontier:
        torch.set_num_threads(threads)
        frontier = self._unread(view, nodes, self._asked)
        frontier.read(frozenset(self._asked))
        return frontier

    def end(self) -> None:
        """Read no more; waits for what is being read."""
        self._thread.shutdown(cancel_futures=True)

    def frontier(self, view: View, nodes: Array) -> Frontier:
        """What was read ahead for some nodes of a view; else a frontier of which nothing is read yet."""
        for place, (other, wanted, read) in enumerate(self._ahead):
            if _same(view, other) and np.array_equal(wanted, nodes):
                del self._ahead[place]
                return read.result()
        return self._unread(view, nodes, self._asked)


def _same(one: View, other: View) -> bool:
    """Whether two views of a graph keep the same edges."""
    return one.drop == other.drop and one.neighbors == other.neighbors

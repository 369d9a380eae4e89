"""How many threads of the CPU a piece of work takes.

torch and our own loops both take as many threads as torch is set to. Threads wait for each other many times in a step: more of
them make a large step faster, and a small one slower.

A forked process has none of the threads that the one before it had, and where that had computed with several, torch's OpenMP
would wait for them for ever. So a forked process computes with one thread, unless it sets torch to more itself.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from clnr.graph.csr import Array
from clnr.support.machine.processors import usable_processors

# What one more thread costs a step of training, in seconds: a few microseconds for each of its few hundred operations.
_SECONDS_PER_THREAD = 1e-3
# The least numbers to add for which a thread is woken: about a fifth of a millisecond.
_NUMBERS_PER_THREAD = 1 << 20
# To decide about an entry takes as long as to add this many numbers.
_NUMBERS_PER_ENTRY = 16
_forked = False


def usable_threads() -> int:
    """What torch is set to, by OMP_NUM_THREADS or ``torch.set_num_threads``, but no more than there are processors."""
    return min(torch.get_num_threads(), usable_processors())


def threads_for(seconds: float, most: int) -> int:
    r"""How many threads, of ``most``, are fastest for a step that takes one thread ``seconds``.

    With T threads it takes :math:`s / T + w T` seconds. One more than T - 1 pays while :math:`s > w T (T - 1)`.
    """
    return min(most, max(1, math.ceil((1 + math.sqrt(1 + 4 * seconds / _SECONDS_PER_THREAD)) / 2) - 1))


@contextmanager
def use_threads(count: int) -> Iterator[int]:
    """Compute a block with ``count`` threads; afterwards torch is set as before.

    In a forked process they are no more than torch is set to.
    """
    before = torch.get_num_threads()
    count = min(count, before) if _forked else count
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)


def share_rows(load: Array, function: Callable[..., None], *arguments: Any, width: int = _NUMBERS_PER_ENTRY) -> None:
    """Call ``function(*arguments, low, high)`` for all rows, in threads with an equal share of the entries each.

    No more threads than the work is worth are woken. How rows are shared out does not change them. ``load`` is an ``indptr``;
    ``width`` numbers are read for an entry.
    """
    rows = len(load) - 1
    # A row counts as an entry.
    threads = min(torch.get_num_threads(), (int(load[-1]) + rows) * width // _NUMBERS_PER_THREAD)
    if threads < 2:
        if rows:
            function(*arguments, 0, rows)
        return
    load = load + np.arange(rows + 1)
    bounds = np.searchsorted(load, np.linspace(0, load[-1], threads + 1)).tolist()
    parts = [(low, high) for low, high in itertools.pairwise(bounds) if low < high]
    others = [_pool().submit(function, *arguments, low, high) for low, high in parts[1:]]
    for low, high in parts[:1]:
        function(*arguments, low, high)
    for other in others:
        other.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="clnr")


def _begin_fork() -> None:
    """A forked process has none of the pool's threads, and makes its own."""
    global _forked
    _forked = True
    torch.set_num_threads(1)
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_fork)

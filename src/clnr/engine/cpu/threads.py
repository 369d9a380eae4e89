"""How many threads of the CPU a piece of work takes.

torch and our own loops both take as many threads as torch is set to. Threads wait for each other many times in a step: more of
them make a large step faster, and a small one slower.

A forked process has none of the threads that the one before it had, and where that had computed with several, torch's OpenMP
would wait for them for ever. So a forked process computes with one thread, unless it sets torch to more itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from clnr.support.machine.processors import usable_processors

# What one more thread costs a step of training, in seconds: a few microseconds for each of its few hundred operations.
_WAIT = 1e-3
_forked = False


def _begin_fork() -> None:
    global _forked
    _forked = True
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_fork)


def usable_threads() -> int:
    """What torch is set to, by OMP_NUM_THREADS or ``torch.set_num_threads``, but no more than there are processors."""
    return min(torch.get_num_threads(), usable_processors())


def threads_for(seconds: float, most: int) -> int:
    r"""How many threads, of ``most``, are fastest for a step that takes one thread so many seconds.

    With T threads it takes :math:`s / T + w T` seconds. One more than T - 1 pays while :math:`s > w T (T - 1)`.
    """
    return min(most, max(1, math.ceil((1 + math.sqrt(1 + 4 * seconds / _WAIT)) / 2) - 1))


@contextmanager
def use_threads(count: int) -> Iterator[int]:
    """Compute a block with so many threads; afterwards torch is set as before.

    In a forked process they are no more than torch is set to.
    """
    before = torch.get_num_threads()
    count = min(count, before) if _forked else count
    torch.set_num_threads(count)
    try:
        yield count
    finally:
        torch.set_num_threads(before)

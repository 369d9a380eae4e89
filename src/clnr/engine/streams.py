"""CUDA streams and graphs: work side by side on a GPU, and work captured once and replayed. On a CPU it runs in place."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


@functools.cache
def _stream(device: torch.device, main: int, index: int) -> torch.cuda.Stream:
    """One stream for each index beside each main stream, made at its first use."""
    return torch.cuda.Stream(device)


class IdentityKey:
    """A dictionary key that equals another only if both hold the very same objects.

    It keeps them alive, so that no other object can get the address of one while the key is in use.
    """

    def __init__(self, *objects: object):
        self._objects, self._ids = objects, tuple(map(id, objects))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self._ids == other._ids


class Streams:
    """Several streams beside the current one.

    As a context manager: at its start they wait for the current stream, and at its end that one waits for all of them.
    On a CPU, or with a single stream, all work runs where it would have run anyway.
    """

    def __init__(self, device: torch.device | None = None, count: int = 1):
        self._cache: dict[Hashable, Any] = {}
        self._side: list[torch.cuda.Stream] = []
        if device is not None and device.type == "cuda" and count > 1:
            self._main = torch.cuda.current_stream(device)
            self._side = [_stream(device, self._main.stream_id, index) for index in range(count)]

    def __enter__(self) -> Streams:
        self._fork()
        return self

    def __exit__(self, *_: object) -> None:
        for side in self._side:
            self._main.wait_stream(side)

    def _fork(self) -> None:
        for side in self._side:
            side.wait_stream(self._main)

    def stream(self, index: int) -> AbstractContextManager[Any]:
        """Run what is inside on one of the streams; it may be entered several times."""
        return torch.cuda.stream(self._side[index]) if self._side else nullcontext()

    def record(self, tensor: torch.Tensor) -> None:
        """Note that the streams read a tensor made outside of them, so that its memory is not reused before they have."""
        for side in self._side if tensor.is_cuda else ():
            tensor.record_stream(side)

    def once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The result of ``compute``, shared by all streams: computed at the first call, on the main stream."""
        if key not in self._cache:
            with torch.cuda.stream(self._main) if self._side else nullcontext():
                self._cache[key] = compute()
            self._fork()
        return self._cache[key]


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, run a block on a stream apart from the default one, which cannot be captured; on a CPU, just run it."""
    if device.type != "cuda":
        yield
        return
    # The same one at every call, since each stream has its own workspace for matrix products.
    stream = _stream(device, 0, -1)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


def capture(work: Callable[[], Result]) -> Callable[[], Result]:
    """Capture work on the current stream, which must not be the default one, as a CUDA graph; returns its replay.

    The work must have run once before. Each replay overwrites what the one before it returned.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        result = work()

    def replay() -> Result:
        graph.replay()
        return result

    return replay


def runs_without_sync(work: Callable[[], None]) -> bool:
    """Run work while torch raises an error wherever the host would wait for the GPU.

    Returns whether it ran to its end; where it did not, part of it may have been done.
    """
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this mode a prototype.
        torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        return False
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return True

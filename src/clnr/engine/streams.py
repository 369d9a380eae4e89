"""Work side by side on a GPU, which small graphs fill only together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch

Made = TypeVar("Made")


@functools.cache
def _stream(device: torch.device, beside: int, index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class Same:
    """A key of a dictionary that equals only one of the very same objects.

    It holds them, so that none can be freed and another come to lie in its place while the key is there.
    """

    def __init__(self, *objects: object):
        self._objects = objects

    def __hash__(self) -> int:
        return hash(tuple(map(id, self._objects)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or len(other._objects) != len(self._objects):
            return False
        return all(mine is theirs for mine, theirs in zip(self._objects, other._objects, strict=True))


class Lanes:
    """So many streams beside the current one: as a context they start where it is now, and it waits for all at the end.

    Without a GPU, or with one lane alone, all of them are the current place.

    Attributes:
        made: What work in one lane has made for all.
    """

    def __init__(self, device: torch.device | None = None, count: int = 1):
        self.made: dict[Hashable, Any] = {}
        self._sides: list[torch.cuda.Stream] = []
        if device is not None and device.type == "cuda" and count > 1:
            self._main = torch.cuda.current_stream(device)
            self._sides = [_stream(device, self._main.stream_id, index) for index in range(count)]

    def __enter__(self) -> Lanes:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for side in self._sides:
            self._main.wait_stream(side)

    def _start(self) -> None:
        for side in self._sides:
            side.wait_stream(self._main)

    def lane(self, index: int) -> AbstractContextManager[Any]:
        """Where one piece of work goes; may be entered several times."""
        return torch.cuda.stream(self._sides[index]) if self._sides else nullcontext()

    def used(self, tensor: torch.Tensor) -> None:
        """Say that lanes read what was made outside of them: its memory is not to be given away before they have done so."""
        for side in self._sides:
            tensor.record_stream(side)

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` returns, made before the lanes part at the first call only, for all of them."""
        if name not in self.made:
            with torch.cuda.stream(self._main) if self._sides else nullcontext():
                self.made[name] = make()
            self._start()
        return self.made[name]


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, work apart from the default stream, which cannot be recorded; done when the block is."""
    if device.type != "cuda":
        yield
        return
    # One for all, since each stream has a workspace of its own for matrix products.
    stream = _stream(device, 0, -1)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


def recorded(work: Callable[[], Made]) -> Callable[[], Made]:
    """Record work on the current stream of a GPU, which is not the default one; what is returned plays it back.

    It is to have been done once before. Whatever it returns is overwritten each time.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        out = work()

    def play() -> Made:
        graph.replay()
        return out

    return play

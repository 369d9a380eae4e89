"""Workers that are processes of a ``torch.distributed`` group: gloo between CPUs, NCCL between GPUs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from clnr import rng
from clnr.errors import DataError, DeviceError, LostWorker
from clnr.support.processes.launch import Place, launched_here, rendezvous_url
from clnr.support.processes.workers import ALONE, Plain, Value, Workers
from clnr.version import __version__

_POLL_SECONDS = 0.2
# How long workers wait for each other where they meet, and in a collective: all come there at about the same time.
_MOST_SECONDS = 600.0
# While a worker works by itself, it says now and then that it is alive; one that has not for so long is lost.
_BEAT_SECONDS, _SILENT_SECONDS = 5.0, 120.0


@dataclass(frozen=True, eq=False)
class WorkerGroup(Workers):
    """The processes of torch's default group, which ends with this where it ``is_own``."""

    rank: int
    size: int
    local_size: int
    store: Any
    is_own: bool = True
    _rows: int = 0
    # All workers do the same things in the same order, so that a number names each of them.
    _names: Iterator[int] = field(default_factory=itertools.count)
    _closed: threading.Event = field(default_factory=threading.Event)

    def sharing(self, rows: int) -> WorkerGroup:
        return replace(self, _rows=rows)

    def _bounds(self, rank: int) -> tuple[int, int]:
        return self._rows * rank // self.size, self._rows * (rank + 1) // self.size

    def share(self, nodes: Tensor | None, device: torch.device | None = None) -> Tensor | None:
        if nodes is None:
            # In no order that means anything, so that each share is as good as drawn.
            nodes = rng.shuffle(rng.key(0, "share"), self._rows, device)
        low, high = self._bounds(self.rank)
        return nodes[low:high]

    def num_rows(self, rows: Tensor) -> int:
        return self._rows

    def mean(self, values: Tensor, dim: int | None = None) -> Tensor:
        low, high = self._bounds(self.rank)
        return values.mean(dim) * ((high - low) / self._rows)

    def part(self, value: Value) -> Value:
        return value / self.size

    def all_reduce_with_grad(self, value: Tensor) -> Tensor:
        return _Sum.apply(value, self)

    def all_gather(self, rows: Tensor) -> Tensor:
        return self._concatenated(rows, [high - low for low, high in map(self._bounds, range(self.size))])

    def _concatenated(self, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        """All workers' rows; ``sizes`` says how many each has."""
        padded, longest = rows.contiguous(), max(sizes)
        if len(rows) < longest:
            # A process group gathers tensors of one size.
            padded = rows.new_zeros(longest, *rows.shape[1:])
            padded[: len(rows)] = rows
        every = rows.new_empty(self.size, longest, *rows.shape[1:])
        with self._together():
            dist.all_gather(list(every), padded)
        return torch.cat([part[:size] for part, size in zip(every, sizes, strict=True)])

    def all_reduce(self, *values: Tensor) -> list[Tensor]:
        flat = torch.cat([value.reshape(-1) for value in values])
        with self._together():
            dist.all_reduce(flat)
        parts = flat.split([value.numel() for value in values])
        return [part.reshape(value.shape) for part, value in zip(parts, values, strict=True)]

    def weights(self, rows: Tensor, nodes: Callable[[], Tensor | None]) -> Tensor | None:
        wide = torch.promote_types(rows.dtype, torch.float32)
        own_nodes = nodes()
        if own_nodes is None:
            return torch.full((len(rows),), 1 / self.size, dtype=wide, device=rows.device)
        lengths = self._concatenated(torch.tensor([len(own_nodes)], device=own_nodes.device), [1] * self.size)
        every, counts = self._concatenated(own_nodes, lengths.tolist()).unique(return_counts=True)
        return 1 / counts[torch.searchsorted(every, own_nodes)].to(wide)

    def check_same_on_all_ranks(self, about: Callable[[], Mapping[str, object]]) -> None:
        description = {**about(), "version of clnr": __version__, "version of torch": torch.__version__}
        first, *others = [json.loads(each) for each in self._said_by_all(json.dumps(description))]
        for rank, other in enumerate(others, 1):
            if differs := [name for name in first if other[name] != first[name]]:
                raise DataError(f"workers 0 and {rank} do not have the same {', '.join(differs)}")

    def broadcast_object(self, value: Plain) -> Plain:
        name = f"said {next(self._names)}"
        with self._together():
            if self.first:
                self.store.set(name, json.dumps(value))
            return json.loads(self._awaited(name, 0))

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        with self._together():
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def work_queue(self, count: int) -> Iterator[int]:
        name, taken = f"taken {next(self._names)}", 0
        while taken < count:
            with self._together():
                taken = self.store.add(name, 1)
            if taken <= count:
                yield taken - 1

    def all_reduce_min(self, number: int) -> int:
        return min(map(int, self._said_by_all(str(int(number)))))

    def _said_by_all(self, text: str) -> list[str]:
        """What each worker says, in the order of rank; the others are waited for while they are alive."""
        name = f"said {next(self._names)}"
        with self._together():
            self.store.set(f"{name} {self.rank}", text)
            return [self._awaited(f"{name} {rank}", rank) for rank in range(self.size)]

    def _awaited(self, key: str, rank: int) -> str:
        """What a worker leaves in the store, once it is there."""
        beat, since, pause = b"", time.monotonic(), _POLL_SECONDS / 64
        while not self.store.check([key]):
            if self.store.check(["error"]):
                raise LostWorker(f"worker {self.rank} of {self.size} stopped: another worker reported an error")
            now = self.store.get(f"beat {rank}") if self.store.check([f"beat {rank}"]) else b""
            if now != beat:
                beat, since = now, time.monotonic()
            elif time.monotonic() > since + _SILENT_SECONDS:
                raise LostWorker(f"worker {self.rank} of {self.size} waited for worker {rank}, which is silent")
            time.sleep(pause)
            pause = min(_POLL_SECONDS, 2 * pause)
        return self.store.get(key).decode()

    def beat(self) -> None:
        """Let the others know that this worker is alive, until it leaves."""
        with contextlib.suppress(RuntimeError):
            for beat in itertools.count():
                self.store.set(f"beat {self.rank}", str(beat))
                if self._closed.wait(_BEAT_SECONDS):
                    return

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise LostWorker(f"worker {self.rank} of {self.size} lost another one: {error}") from None

    def claim(self) -> bool:
        with contextlib.suppress(RuntimeError):
            return self.store.compare_set("error", "", str(self.rank)) == str(self.rank).encode()
        return self.first

    def leave(self) -> None:
        with self._together():
            if self.first:
                self.store.set("done", "")
            self._awaited("done", 0)

    def close(self) -> None:
        self._closed.set()
        if self.is_own:
            with contextlib.suppress(RuntimeError):
                dist.destroy_process_group()


def join(device: str) -> Workers:
    """Join the workers that were started together with this process; ``ALONE`` where there are none.

    Each worker of a machine takes the GPU of its number there, if it computes on GPUs.
    """
    place = Place.from_environment()
    if place is None or place.size == 1:
        return ALONE
    if not dist.is_available():
        raise DeviceError("this PyTorch was built without torch.distributed, which several workers need")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu:
        if place.local_size > torch.cuda.device_count():
            count = torch.cuda.device_count()
            raise DeviceError(f"{place.local_size} workers on a machine with {count} GPUs: each needs one of its own")
        torch.cuda.set_device(place.local_rank)
    from torch.distributed.distributed_c10d import PrefixStore, _get_default_store
    from torch.distributed.rendezvous import rendezvous

    # Ray Train has made the group.
    is_own, limit = not dist.is_initialized(), timedelta(seconds=_MOST_SECONDS)
    try:
        if is_own:
            store, _, _ = next(rendezvous(rendezvous_url(), place.rank, place.size, timeout=limit))
            store.set_timeout(limit)
        else:
            store = _get_default_store()
        store = PrefixStore(_meet(store, place, _MOST_SECONDS), store)
        if is_own:
            if launched_here() or os.environ.get("LOCAL_WORLD_SIZE") == str(place.size):
                _stay_on_this_host()
            backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
            of_group: dict[str, Any] = {"store": PrefixStore("group", store), "rank": place.rank, "world_size": place.size}
            dist.init_process_group(backend, timeout=limit, **of_group)
    except (RuntimeError, ValueError) as error:
        raise LostWorker(f"worker {place.rank} of {place.size} did not find the others: {error}") from None
    group = WorkerGroup(place.rank, place.size, place.local_size, PrefixStore("workers", store), is_own)
    threading.Thread(target=group.beat, daemon=True).start()
    return group


def _meet(store: Any, place: Place, timeout: float) -> str:
    """A name for this start of all workers, under which nothing is in the store yet.

    The store of ``torchrun`` or Ray Train may have names of an earlier start, and addresses of lost workers. The first worker
    draws a name, and takes it when all others have answered to it; each of the others waits until its own answer is among those
    that were taken.
    """
    own, end = uuid.uuid4().hex, time.monotonic() + timeout
    if place.rank == 0:
        store.set("start", own)
        store.set(f"{own}/taken", " ".join(store.get(f"{own}/{rank}").decode() for rank in range(1, place.size)))
        return own
    while time.monotonic() < end:
        start = store.get("start").decode()
        store.set(f"{start}/{place.rank}", own)
        if store.check([f"{start}/taken"]) and own in store.get(f"{start}/taken").decode():
            return start
        time.sleep(_POLL_SECONDS)
    raise LostWorker(f"worker {place.rank} of {place.size} did not find the others within {timeout:g} seconds")


def _stay_on_this_host() -> None:
    """Let gloo and NCCL listen on the loopback interface alone, whatever the host's name resolves to."""
    there = {name for _, name in socket.if_nameindex()}
    for name in ("lo", "lo0"):
        if name in there:
            os.environ |= {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}"}


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, workers: WorkerGroup) -> Tensor:
        ctx.workers = workers
        return workers.all_reduce(value)[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.workers.all_reduce(grads[0])[0], None

import functools
import weakref
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from clnr import rng
from clnr.engine import Drop, Reference, View
from clnr.engine.streams import IdentityKey, Streams, own_stream, runs_without_sync
from tests.conftest import tiny


def test_without_a_gpu_all_streams_run_in_place():
    made = []
    with Streams(torch.device("cpu"), 3) as streams:
        for index in range(3):
            with streams.stream(index):
                made.append(streams.once("it", lambda: object()))
    streams.record(torch.zeros(1))
    assert made[0] is made[1] is made[2]


def test_a_key_is_the_same_only_for_the_very_same_objects_and_holds_them():
    one, equal = torch.zeros(2), torch.zeros(2)
    assert IdentityKey(one, None) == IdentityKey(one, None)
    assert hash(IdentityKey(one)) == hash(IdentityKey(one))
    assert IdentityKey(one) not in (IdentityKey(equal), IdentityKey(one, None), IdentityKey(), one, id(one))
    held = weakref.ref(one)
    kept = {IdentityKey(one): "made"}
    del one
    assert held() is not None
    kept.clear()
    assert held() is None


class FakeStream:
    def __init__(self, name, log):
        self.name, self.stream_id, self._log = name, name, log

    def wait_stream(self, other):
        self._log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def fake_cuda(monkeypatch):
    """A log of what streams wait for, with the current one at its end, on a machine that may have no GPU."""
    log, current = [], []
    current.append(FakeStream("main", log))
    names = iter("abcdef")

    @contextmanager
    def entered(stream):
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: current[-1])
    monkeypatch.setattr(torch.cuda, "stream", entered)
    made = functools.cache(lambda device, main, index: FakeStream(next(names), log))
    monkeypatch.setattr("clnr.engine.streams._stream", made)
    return lambda *news: log.extend(f"{current[-1].name}: {each}" for each in news) or log


def test_streams_wait_for_the_current_one_when_they_part_and_when_something_is_shared(fake_cuda):
    with Streams(torch.device("cuda"), 2) as streams:
        with streams.stream(0):
            fake_cuda("work")
            streams.once("it", lambda: fake_cuda("made"))
        with streams.stream(1):
            streams.once("it", lambda: fake_cuda("made twice"))
            fake_cuda("work")
    assert fake_cuda("done") == [
        *("a waits for main", "b waits for main", "a: work", "main: made", "a waits for main", "b waits for main"),
        *("b: work", "main waits for a", "main waits for b", "main: done"),
    ]


class SideBySide(Reference):
    """Plain, with a stream for each view."""

    def __init__(self, log):
        super().__init__(torch.device("cpu"))
        self._log = log

    def streams(self, device_graph, count):
        return Streams(torch.device("cuda"), count)

    def prepare(self, view):
        self._log("prepared")

    def operators(self, view, streams=None):
        self._log("operators")
        return super().operators(view, streams)


class Nodes(torch.Tensor):
    """A tensor that notes which streams read it."""

    is_cuda = True

    def record_stream(self, stream):
        self.read_by = [*getattr(self, "read_by", []), stream.name]


def test_each_view_has_its_stream_and_what_views_share_is_made_before(fake_cuda):
    engine, graph = SideBySide(fake_cuda), tiny()
    device_graph = engine.to_device(graph)
    sizes = (5, graph.num_nodes, len(device_graph.edges.columns))
    nodes, order, rate = (torch.zeros(size, dtype=torch.int64).as_subclass(Nodes) for size in sizes)
    views = [View(device_graph, node_permutation=order), View(device_graph, Drop(rng.key(0), rate))]
    weight = torch.ones(2)
    engine.map_views(lambda operators, parameters, index: fake_cuda(f"view {index}"), views, {"weight": weight}, nodes)
    part, join = ["a waits for main", "b waits for main"], ["main waits for a", "main waits for b"]
    assert fake_cuda() == [
        *("main: prepared", "main: prepared"),
        *(*part, "a: operators", "b: operators", *join),
        *(*part, "a: view 0", "b: view 1", *join),
    ]
    assert nodes.read_by == order.read_by == rate.read_by == ["a", "b"]


@pytest.mark.gpu
class TestOnTheGPU:
    def test_an_engine_captures_steps_side_by_side(self, cuda):
        engine, totals = Reference(cuda), [torch.zeros(3, device=cuda) for _ in range(3)]
        steps = [partial(total.add_, index + 1) for index, total in enumerate(totals)]
        with engine.own_stream():
            assert all(runs_without_sync(step) for step in steps)
            replay = engine.capture(steps)
            for _ in range(4):
                replay()
        torch.cuda.synchronize()
        assert [total.tolist() for total in totals] == [[5.0] * 3, [10.0] * 3, [15.0] * 3]

    def test_a_step_that_waits_is_found(self, cuda):
        with own_stream(cuda):
            assert not runs_without_sync(lambda: torch.ones((), device=cuda).item())
        assert torch.cuda.get_sync_debug_mode() == 0

from __future__ import annotations

import weakref
from functools import partial

import pytest
import torch

from clnr.engine import Reference
from clnr.engine.streams import IdentityKey, Streams, capture, own_stream


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


@pytest.mark.gpu
class TestOnTheGPU:
    def test_streams_wait_for_the_current_one_and_it_waits_for_them(self, cuda):
        with own_stream(cuda):
            for _ in range(20):
                x = torch.zeros(1 << 22, device=cuda)
                for _ in range(20):
                    x += 1
                parts = []
                with Streams(cuda, 4) as streams:
                    for index in range(4):
                        with streams.stream(index):
                            shared = streams.once("double", lambda x=x: x * 2)
                            streams.record(x)
                            parts.append(shared + x + index)
                assert [float(part.mean()) for part in parts] == [60, 61, 62, 63]

    def test_captured_work_is_done_anew_at_each_replay(self, cuda):
        total, added = torch.zeros(3, device=cuda), torch.ones(3, device=cuda)

        def work():
            with Streams(cuda, 2) as streams, streams.stream(1):
                total.add_(added)
            return total * 2

        with own_stream(cuda):
            work()
            replay = capture(work)
            seen = [replay().clone() for _ in range(3)]
        torch.cuda.synchronize()
        assert [each.tolist() for each in seen] == [[4.0] * 3, [6.0] * 3, [8.0] * 3]

    def test_an_engine_captures_steps_side_by_side(self, cuda):
        engine, totals = Reference(cuda), [torch.zeros(3, device=cuda) for _ in range(3)]
        steps = [partial(total.add_, index + 1) for index, total in enumerate(totals)]
        assert engine.cuda_graphs
        with engine.own_stream():
            assert all(engine.runs_without_sync(step) for step in steps)
            replay = engine.capture(steps)
            for _ in range(4):
                replay()
        torch.cuda.synchronize()
        assert [total.tolist() for total in totals] == [[5.0] * 3, [10.0] * 3, [15.0] * 3]

    def test_a_step_that_waits_is_found(self, cuda):
        with own_stream(cuda):
            assert not Reference(cuda).runs_without_sync(lambda: torch.ones((), device=cuda).item())
        assert torch.cuda.get_sync_debug_mode() == 0

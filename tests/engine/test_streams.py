from __future__ import annotations

import weakref

import pytest
import torch

from clnr.engine import Lanes, own_stream, recorded
from clnr.engine.streams import Same


def test_without_a_gpu_all_lanes_are_here():
    made = []
    with Lanes(torch.device("cpu"), 3) as lanes:
        for index in range(3):
            with lanes.lane(index):
                made.append(lanes.once("it", lambda: object()))
    lanes.used(torch.zeros(1))
    assert made[0] is made[1] is made[2]


def test_a_key_is_the_same_only_for_the_very_same_objects_and_holds_them():
    one, equal = torch.zeros(2), torch.zeros(2)
    assert Same(one, None) == Same(one, None)
    assert hash(Same(one)) == hash(Same(one))
    assert Same(one) not in (Same(equal), Same(one, None), Same(), one, id(one))
    held = weakref.ref(one)
    kept = {Same(one): "made"}
    del one
    assert held() is not None
    kept.clear()
    assert held() is None


@pytest.mark.gpu
class TestOnTheGPU:
    def test_lanes_start_where_the_stream_is_and_it_waits_for_them(self, cuda):
        with own_stream(cuda):
            for _ in range(20):
                x = torch.zeros(1 << 22, device=cuda)
                for _ in range(20):
                    x += 1
                parts = []
                with Lanes(cuda, 4) as lanes:
                    for index in range(4):
                        with lanes.lane(index):
                            shared = lanes.once("double", lambda x=x: x * 2)
                            lanes.used(x)
                            parts.append(shared + x + index)
                assert [float(part.mean()) for part in parts] == [60, 61, 62, 63]

    def test_what_is_recorded_is_done_anew_each_time(self, cuda):
        total, added = torch.zeros(3, device=cuda), torch.ones(3, device=cuda)

        def work():
            with Lanes(cuda, 2) as lanes, lanes.lane(1):
                total.add_(added)
            return total * 2

        with own_stream(cuda):
            work()
            play = recorded(work)
            seen = [play().clone() for _ in range(3)]
        torch.cuda.synchronize()
        assert [each.tolist() for each in seen] == [[4.0] * 3, [6.0] * 3, [8.0] * 3]

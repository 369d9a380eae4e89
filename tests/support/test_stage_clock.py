from __future__ import annotations

import contextlib
import itertools
import threading

import numpy as np
import pytest
import torch

from clnr.support.stage_clock import StageClock, stage, use_clock


class Time:
    """A clock that stands still until a test moves it; ``after`` makes timers by it, as ``threading.Timer``."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def pass_by(self, seconds):
        self.now += seconds
        for timer in list(self.timers):
            if timer.at <= self.now:
                self.timers.remove(timer)
                timer.then()

    def after(self, seconds, then):
        return Timer(self, seconds, then)


class Timer:
    def __init__(self, time, seconds, then):
        self.time, self.seconds, self.then = time, seconds, then

    def start(self):
        self.at = self.time.now + self.seconds
        self.time.timers.append(self)

    def cancel(self):
        if self in self.time.timers:
            self.time.timers.remove(self)


@pytest.fixture
def time():
    return Time()


def clock_of(time, on_slow=None):
    return StageClock(on_slow=on_slow, now=lambda: time.now, after=time.after)


def test_every_second_counts_once_for_the_innermost_stage(time):
    clock = clock_of(time)
    with use_clock(clock), stage("train"):
        time.pass_by(1)
        with stage("prepare"):
            time.pass_by(10)
        time.pass_by(100)
        with stage("baselines", whole=True), stage("prepare"):
            time.pass_by(1000)
    time.pass_by(10_000)
    with use_clock(clock), stage("prepare"):
        time.pass_by(20)
    found = {each.stage: each.seconds for each in clock.stages}
    assert found == {"prepare": 30, "train": 101, "baselines": 1000}
    assert list(found) == ["prepare", "train", "baselines"]


def test_an_error_ends_a_stage(time):
    clock = clock_of(time)
    with use_clock(clock), stage("score"):
        with contextlib.suppress(KeyError), stage("baselines", whole=True):
            time.pass_by(2)
            raise KeyError
        with stage("embed"):
            time.pass_by(4)
        time.pass_by(8)
    assert {each.stage: each.seconds for each in clock.stages} == {"embed": 4, "score": 8, "baselines": 2}


def test_without_a_clock_and_in_other_threads_nothing_is_measured(time):
    with stage("train"):
        time.pass_by(1)
    clock = clock_of(time)

    def beside():
        with stage("embed"):
            time.pass_by(1)

    with use_clock(clock), stage("train"):
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
    assert [(each.stage, each.seconds) for each in clock.stages] == [("train", 1)]


def test_a_stage_is_shown_when_it_turns_out_slow(time):
    said = []

    def on_slow(name):
        said.append(f"{time.now:g} {name}")
        return lambda: said.append(f"{time.now:g} end of {name}")

    with use_clock(clock_of(time, on_slow)), stage("train"):
        time.pass_by(1.5)
        with stage("prepare"):
            time.pass_by(1.5)
        time.pass_by(3)
        with stage("embed"):
            time.pass_by(5)
        time.pass_by(50)
    assert said == ["6 train", "6 end of train", "11 embed", "11 end of embed"]
    assert time.timers == []


def test_each_stage_has_its_own_peak_of_memory():
    clock = StageClock(torch.device("cpu"), now=itertools.count().__next__)
    with use_clock(clock):
        with stage("train"):
            held = np.ones(40_000_000)
            del held
        with stage("embed"):
            torch.ones(1_000_000).sum()
    train, embed = clock.stages
    assert train.peak_bytes - embed.peak_bytes > 2e8
    assert train.to_dict() == {"stage": "train", "seconds": train.seconds, "peak_bytes": train.peak_bytes}
    assert train._replace(device_peak_bytes=7).to_dict()["device_peak_bytes"] == 7


def test_a_gpu_is_waited_for_where_it_is_in_use_and_measured(monkeypatch):
    """By functions in place of CUDA's."""
    calls, peaks, in_use = [], iter([7, 3]), [False]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use[0])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("wait"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: calls.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: next(peaks))
    clock = StageClock(torch.device("cuda"), now=itertools.count().__next__)
    with use_clock(clock), stage("read"):
        in_use[0] = True
    assert calls == ["wait"]
    for _ in range(2):
        with use_clock(clock), stage("train"):
            calls.append("train")
    assert calls == ["wait", *2 * ["wait", "reset", "train", "wait"]]
    assert [(each.stage, each.device_peak_bytes) for each in clock.stages] == [("read", 0), ("train", 7)]
    unmeasured = StageClock(now=itertools.count().__next__)
    with use_clock(unmeasured), stage("train"):
        pass
    assert len(calls) == 9
    assert unmeasured.stages[0].peak_bytes == 0

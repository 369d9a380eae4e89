from __future__ import annotations

import contextlib
import io
import threading

import pytest
import torch
from rich.console import Console
from rich.progress import Progress, TextColumn

from clnr.support import stage_clock
from clnr.support.progress import Bar
from clnr.support.stage_clock import StageClock, stage


@pytest.fixture
def pass_by(monkeypatch):
    """Time stands still until a test moves it."""
    now = [0.0]
    monkeypatch.setattr(stage_clock, "perf_counter", lambda: now[-1])
    return lambda seconds: now.append(now[-1] + seconds)


def taken(clock):
    return {name: seconds for name, seconds in clock.seconds.items() if seconds and name != "import"}


def test_every_second_counts_once_for_the_innermost_stage_also_after_an_error(pass_by):
    clock = StageClock()
    with clock, stage("train"):
        pass_by(1)
        with stage("prepare"):
            pass_by(10)
        pass_by(100)
        with contextlib.suppress(KeyError), stage("baselines", whole=True), stage("prepare"):
            pass_by(1000)
            raise KeyError
        with stage("embed"):
            pass_by(4)
        pass_by(200)
    pass_by(10_000)
    with clock, stage("prepare"):
        pass_by(20)
    assert taken(clock) == {"prepare": 30, "train": 301, "embed": 4, "baselines": 1000}


def test_without_a_clock_and_in_other_threads_nothing_is_measured(pass_by):
    with stage("train"):
        pass_by(1)

    def beside():
        with stage("embed"):
            pass_by(1)

    with StageClock() as clock, stage("train"):
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
    assert taken(clock) == {"train": 1}


def test_a_gpu_is_waited_for_where_it_is_in_use_and_measured(monkeypatch):
    """By functions in place of CUDA's."""
    calls, in_use = [], [False]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use[0])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("wait"))
    clock = StageClock(torch.device("cuda"))
    with clock, stage("read"):
        in_use[0] = True
    with clock, stage("train"):
        calls.append("train")
    assert calls == ["wait", "wait", "train", "wait"]
    with StageClock(), stage("train"):
        assert len(calls) == 4


def test_a_terminal_shows_the_stage_that_runs_unless_there_is_a_bar():
    with Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO(), force_terminal=True)) as progress:
        bar, shown = Bar(progress, quiet=False), lambda: [task.description for task in progress.tasks]
        with StageClock(show=bar.show_stage):
            with stage("train"):
                with stage("prepare"):
                    assert shown() == ["prepare"]
                assert shown() == ["train"]
                with bar.training("CLNR on 9 nodes", 10), stage("fit the read-out"):
                    assert shown() == ["CLNR on 9 nodes"]
            assert shown() == []
    with StageClock(show=Bar(None, quiet=False).show_stage), stage("train"):
        pass

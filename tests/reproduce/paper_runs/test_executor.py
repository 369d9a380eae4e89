from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from reproduce.paper_runs.executor import WorkerConfig, run_job, run_jobs
from reproduce.paper_runs.plan import Job, plan
from reproduce.paper_runs.run_index import RunFilter, RunIndex
from reproduce.paper_runs.scope import Scope

from clnr.datasets import load
from clnr.engine import choose, cpu_engine
from clnr.errors import TrainingError
from clnr.experiments.run_cache import RunCache, run_key
from clnr.methods import CLNR, NCLNR
from clnr.support.storage.atomic_io import file_lock
from reproduce.paper_runs import executor

SCOPE = Scope(seeds=2)
SMALL = {"epochs": 2, "hidden": 8, "dimension": 4, "probe_steps": 5}
ON_CPU = RunFilter(device="cpu")


def batch(method=CLNR, extra_metrics=(), **changes):
    return SCOPE.batch(method, "toy", extra_metrics=extra_metrics, **(SMALL | changes))


def config():
    return WorkerConfig(RunCache().path, ON_CPU)


def test_a_job_is_made_and_cached_under_its_key():
    told = []
    done = run_job(Job(batch(), (0, 1)), config(), lambda epoch, loss: told.append(epoch))
    assert (done.runs, done.failure) == (2, None)
    assert told[-1] == 2
    graph = load("toy")
    for seed in (0, 1):
        assert RunCache().find(run_key(graph, CLNR, batch().recipe, seed, choose("cpu"))).seed == seed


def test_what_another_process_has_made_by_now_is_not_made_again(monkeypatch):
    run_job(Job(batch(), (0,)), config())
    asked, runs = [], executor.runs
    monkeypatch.setattr(executor, "runs", lambda *a, **k: asked.append(list(a[2])) or runs(*a, **k))
    assert run_job(Job(batch(), (0, 1)), config()).runs == 2
    assert run_job(Job(batch(), (0, 1)), config()).runs == 2
    assert asked == [[1]]


def test_what_another_process_is_at_is_left_to_it_and_comes_last():
    busy, free = Job(batch(), (0,)), Job(batch(NCLNR), (0,))
    path = config().run_cache.parent / "working" / busy.digest
    path.parent.mkdir(parents=True)
    with file_lock(path):
        assert run_job(busy, config()).busy
        all_of_it = run_jobs([busy, free], config(), 1)
        assert next(all_of_it).job is free
    assert [done.job for done in all_of_it] == [busy]
    assert len(RunCache().runs()) == 2
    assert not list(path.parent.iterdir())


def test_measures_are_made_and_timed_runs_are_made_alone_after_a_warm_up(monkeypatch):
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 8)
    run_job(Job(batch(extra_metrics=("clusters", "time")), (0, 1)), config())
    runs = RunIndex(RunCache(), ON_CPU).seeds(batch(extra_metrics=("clusters", "time")))
    assert [run.parallel_seeds for run in runs.values()] == [1, 1]
    assert set(runs[0].extra_metrics) == {"clusters", "time"}
    # The warm-up is cached nowhere.
    assert len(RunCache().runs()) == 2


def test_a_training_that_fails_is_told_and_the_others_stay(monkeypatch):
    def broken(*arguments, **more):
        yield from real(arguments[0], arguments[1], [0], **more)
        raise TrainingError("the loss became nan")

    real = executor.runs
    monkeypatch.setattr(executor, "runs", broken)
    done = run_job(Job(batch(), (0, 1)), config())
    assert (done.runs, done.failure) == (1, "the loss became nan")
    assert len(RunCache().runs()) == 1


@pytest.mark.full
def test_several_processes_make_all_and_the_timed_last():
    batches = [batch(extra_metrics=("time",), temperature=0.7), batch(), batch(NCLNR)]
    ahead = plan(batches, RunIndex(RunCache(), ON_CPU), cpu_engine(), {})
    done = list(run_jobs(ahead.jobs, config(), 2))
    assert sum(each.runs for each in done) == ahead.runs == 6
    assert [each.job.batch.timed for each in done[-2:]] == [True, True]
    assert not any(each.job.batch.timed for each in done[:-2])
    again = plan(batches, RunIndex(RunCache(), ON_CPU), cpu_engine(), {})
    assert (again.jobs, again.cached) == ((), 6)


COMMAND = "table 2 --datasets toy --methods CLNR,nCLNR,GRACE --quick --device cpu --format csv"


def start(home: Path, *more: str) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CLNR_HOME": str(home)}
    words = [sys.executable, "-m", "reproduce", *COMMAND.split(), *more]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def workers(pid: int) -> list[int]:
    """Processes that a process has started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in listed.stdout.split()]


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/status").read_text().partition("State:")[2][:4]
    except FileNotFoundError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)], ids=["kill -9", "Ctrl-C"]
)
def test_stopped_at_any_moment_it_goes_on_and_gives_the_same_table(tmp_path, how):
    process = start(tmp_path / "stopped", "--jobs", "2")
    run_cache = RunCache(tmp_path / "stopped" / "state" / "runs.jsonl")
    deadline = time.monotonic() + 600
    while not run_cache.runs() and time.monotonic() < deadline:
        time.sleep(0.05)
    children = workers(process.pid)
    assert children
    process.send_signal(how)
    _, said = process.communicate(timeout=600)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in said
        assert "resumes from there" in said
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, children))
    kept = len(run_cache.runs())
    assert kept
    second, whole = start(tmp_path / "stopped"), start(tmp_path / "whole")
    table, told = second.communicate(timeout=600)
    expected, _ = whole.communicate(timeout=600)
    assert f"{kept} in the run cache" in told
    assert table == expected
    assert "not run" not in table

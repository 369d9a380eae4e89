"""The run cache: nothing lost, nothing half written, and a clear error where it cannot be used."""

from __future__ import annotations

import dataclasses
import errno
import json
import multiprocessing
import os
import re
from datetime import UTC, datetime, timedelta

import pytest

from clnr.errors import RunCacheError
from clnr.experiments.results import Run
from clnr.experiments.run_cache import RunCache


def made(seed: int = 0, **changes) -> Run:
    """A run whose numbers all follow from its seed, so that a mixed-up row would show."""
    values = {"method": "CLNR", "dataset": "cora", "seed": seed, "epochs": seed, "threads": seed or None}
    values |= {"strict": 80 + seed / 7, "paper": 81 + seed / 7, "validation": 79 + seed / 7}
    values |= {"alignment": 0.1 * seed, "uniformity": -2.5 - seed, "effective_rank": 100.25 + seed}
    values |= {"train_seconds": 1e-9 * seed, "epoch_ms": 3.5, "seconds": 0.1 + 0.2}
    values |= {"parallel_seeds": 1, "peak_memory_bytes": 2**40 + seed, "content": "c" * 64}
    values |= {"device": "cpu", "engine": "cpu", "precision": "float32", "machine": "a processor, ½ core"}
    values |= {"recipe": {"epochs": seed, "edge_drop_mode": "pairs", "learning_rate": 1e-3}}
    values |= {"versions": {"clnr": "0.1.0", "code": "0123456789abcdef"}}
    return Run(**(values | changes))


@pytest.fixture
def run_cache(tmp_path) -> RunCache:
    return RunCache(tmp_path / "place" / "runs.jsonl")


# -- what goes in comes out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [made(3), made(1, epoch_ms=None, threads=None), made(2**63, alignment=float("inf"))])
def test_a_run_comes_back_equal(run_cache, run):
    run_cache.add("key", run)
    assert run_cache.find("key") == run
    ((when, read),) = run_cache.runs()
    assert (read, abs(datetime.fromisoformat(when) - datetime.now(UTC)) < timedelta(seconds=30)) == (run, True)


def test_where_nothing_was_recorded_nothing_is_found_and_nothing_made(run_cache):
    assert run_cache.find("key") is None
    assert run_cache.runs() == []
    assert not run_cache.path.parent.exists()


def test_a_run_that_is_there_is_not_written_twice_unless_it_was_to_be_run_again(run_cache):
    run_cache.add("key", made())
    run_cache.add("key", made(seconds=7.0))
    assert [run for _, run in run_cache.runs()] == [made()]
    run_cache.add("key", made(1), rerun=True)
    assert run_cache.find("key") == made(1)
    assert run_cache.find("other") is None
    assert len(run_cache.runs()) == 2


# -- several writers, and kills ---------------------------------------------------------------------------------------------


def write_runs(path, writer, count, barrier):
    barrier.wait(60)
    for seed in range(count):
        RunCache(path).add(f"{writer}-{seed}", made(seed, dataset=f"writer {writer}"))


@pytest.mark.full
def test_two_processes_write_at_once_and_none_loses_a_run(run_cache):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    workers = [context.Process(target=write_runs, args=(run_cache.path, i, 50, barrier)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    runs = [run for _, run in run_cache.runs()]
    assert len(runs) == 100
    for writer in range(2):
        mine = [run for run in runs if run.dataset == f"writer {writer}"]
        assert mine == [made(seed, dataset=f"writer {writer}") for seed in range(50)]
        assert run_cache.find(f"{writer}-49") == mine[-1]


@pytest.mark.parametrize("left", [1, 9, -1])
def test_a_half_written_line_is_passed_over_and_damages_no_other(run_cache, left):
    run_cache.add("first", made(1))
    whole = run_cache.path.read_bytes()
    run_cache.path.write_bytes(whole + whole[:left])
    assert [run for _, run in run_cache.runs()] == [made(1)]
    run_cache.prepare()
    assert run_cache.path.read_bytes() == whole
    run_cache.path.write_bytes(whole + whole[:left])
    run_cache.add("second", made(2))
    assert [run for _, run in run_cache.runs()] == [made(1), made(2)]


# -- where it cannot be used -----------------------------------------------------------------------------------------------

USES = {
    "prepare": lambda run_cache: run_cache.prepare(),
    "add": lambda run_cache: run_cache.add("key", made()),
    "find": lambda run_cache: run_cache.find("key"),
    "runs": lambda run_cache: run_cache.runs(),
}


def assert_unusable(run_cache: RunCache, use) -> str:
    with pytest.raises(RunCacheError, match=re.escape(str(run_cache.path))) as caught:
        use(run_cache)
    return str(caught.value)


LINE = json.dumps({"key": "key", "made": "2026-01-01", **dataclasses.asdict(made())})
DAMAGED = ["garbage", "[]", "{}", "", "[" * 100_000, LINE[:-1], LINE.replace('"seed"', '"banana"')]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_line_that_is_no_run_is_named_and_the_file_left_alone(run_cache, use):
    run_cache.add("another key", made())
    whole = run_cache.path.read_bytes()
    for damaged in DAMAGED:
        before = whole + damaged.encode() + b"\n" + whole
        run_cache.path.write_bytes(before)
        assert "line 2" in assert_unusable(RunCache(run_cache.path), use)
        assert run_cache.path.read_bytes() == before


@pytest.mark.parametrize("use", [USES["prepare"], USES["add"]], ids=["prepare", "add"])
def test_a_file_of_somebody_elses_is_not_written_to(run_cache, use):
    run_cache.path.parent.mkdir()
    run_cache.path.write_bytes(b"years of work")
    assert_unusable(run_cache, use)
    assert run_cache.path.read_bytes() == b"years of work"


def test_on_a_full_disk_the_file_is_as_before(run_cache, monkeypatch):
    run_cache.add("another key", made())
    before = run_cache.path.read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert os.strerror(errno.ENOSPC) in assert_unusable(run_cache, USES["add"])
    assert run_cache.path.read_bytes() == before
    USES["add"](run_cache)
    assert run_cache.find("key") == made()

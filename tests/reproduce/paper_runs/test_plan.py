from __future__ import annotations

import itertools

from reproduce.paper_runs.plan import plan
from reproduce.paper_runs.run_index import RunFilter, RunIndex
from reproduce.paper_runs.scope import SETS, Scope

from clnr.engine import cpu_engine
from clnr.methods import CLNR, METHODS
from clnr.support.machine import environment
from tests.reproduce.made import cache_of, made

SCOPE = Scope(seeds=3)
BATCH = SCOPE.batch(CLNR, "cora")


def planned(batches, *runs, without=None):
    return plan(batches, RunIndex(cache_of(*runs), RunFilter()), cpu_engine(), without or {})


def wanted(ahead):
    return [(job.batch.method.name, job.batch.dataset, job.seeds) for job in ahead.jobs]


def test_what_the_run_cache_has_is_not_planned():
    ahead = planned([BATCH], made(BATCH, 1))
    assert wanted(ahead) == [("CLNR", "cora", (0,)), ("CLNR", "cora", (2,))]
    assert (ahead.runs, ahead.cached) == (2, 1)
    assert "2 runs to do, 1 in the run cache" in ahead.describe(1)


def test_seeds_that_are_trained_side_by_side_are_one_job(monkeypatch):
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 2)
    assert [seeds for _, _, seeds in wanted(planned([BATCH]))] == [(0, 1), (2,)]


def test_a_run_that_serves_several_is_made_once_and_for_the_most_demanding():
    clusters = SCOPE.batch(CLNR, "cora", extra_metrics=("clusters",))
    points = SCOPE.batch(CLNR, "cora", extra_metrics=("points",))
    jobs = planned([BATCH, clusters, BATCH, points]).jobs
    assert [(*job.batch.extra_metrics, *job.seeds) for job in jobs] == [
        (x, i) for x in ("clusters", "points") for i in range(3)
    ]


def test_quick_methods_come_first_and_else_as_given():
    names = ["MVGRL", "GRACE", "BGRL", "CLNR"]
    ahead = planned([SCOPE.batch(METHODS[name], "cora") for name in names])
    assert list(dict.fromkeys(name for name, _, _ in wanted(ahead))) == ["GRACE", "CLNR", "MVGRL", "BGRL"]


def test_data_that_cannot_be_had_is_named_and_not_planned():
    ahead = planned([BATCH, SCOPE.batch(CLNR, "ogbn-arxiv")], without={"ogbn-arxiv": "it is not there"})
    assert {dataset for _, dataset, _ in wanted(ahead)} == {"cora"}
    assert "no data for ogbn-arxiv: it is not there" in ahead.describe(1)


def test_memory_is_told_from_runs_of_the_kind_on_this_machine():
    other = SCOPE.batch(CLNR, "cora", epochs=200)
    here = environment.describe(cpu_engine().device)
    known = planned([BATCH], made(other, machine=here, peak_memory_bytes=5 * 2**30))
    assert known.memory == 5 * 2**30
    assert "10.0 GiB" in known.describe(2)


def test_a_guess_is_a_sensible_number_for_every_method_and_data_set():
    for method, name in itertools.product(METHODS.values(), SETS):
        ahead = planned([Scope(seeds=1).batch(method, name)])
        assert 2**28 < ahead.memory < 2**45


def test_a_job_says_what_is_unusual_about_it():
    job = planned([SCOPE.batch(CLNR, "cora", edge_noise=0.3, dimension=64)]).jobs[0]
    assert str(job) == "CLNR on cora, dimension=64, edge_noise=0.3, seed 0"

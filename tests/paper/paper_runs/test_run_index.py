from __future__ import annotations

import pytest

from clnr import methods
from clnr.methods import CLNR
from clnr.methods.recipe import REMOVED_KEYS
from clnr.paper.paper_runs.run_index import RunFilter, RunIndex
from clnr.paper.paper_runs.scope import Scope
from clnr.support.machine import code_digest, environment
from tests.paper.made import cache_of, made

BATCH = Scope().batch(CLNR, "cora", 3)


def test_runs_are_found_by_what_they_are_of():
    others = [
        made(Scope().batch(methods.GRACE, "cora")),
        made(Scope().batch(CLNR, "pubmed")),
        made(Scope().batch(CLNR, "cora", temperature=0.9)),
        made(BATCH, 7),
    ]
    run_index = RunIndex(cache_of(*others, made(BATCH, 1), made(BATCH, 0)), RunFilter())
    assert [run.seed for run in run_index.find(BATCH).runs] == [0, 1]
    assert RunIndex(cache_of(), RunFilter(), of=BATCH).find(Scope().batch(methods.DGI, "cora")) is None
    assert len(run_index.like(BATCH)) == 4


def test_of_several_runs_of_a_seed_the_latest_counts_but_those_of_this_code_first():
    old = {"versions": made(BATCH).versions | {"code": "another"}}
    runs = [made(BATCH, 0, strict=1.0), made(BATCH, 0, strict=2.0), made(BATCH, 0, strict=3.0, **old)]
    run_cache = cache_of(*runs)
    assert RunIndex(run_cache, RunFilter()).find(BATCH).mean("strict") == 2.0
    assert RunIndex(run_cache, RunFilter(any_version=True)).find(BATCH).mean("strict") == 2.0
    assert RunIndex(cache_of(runs[-1]), RunFilter(any_version=True), of=BATCH).find(BATCH).runs[0].strict == 2.0


@pytest.mark.parametrize("other", [{"code": "another"}, {"torch": "2.0.1"}], ids=["code", "torch"])
def test_runs_of_other_code_or_torch_count_only_where_that_was_asked_for(other):
    run = made(BATCH, versions=made(BATCH).versions | other)
    run_cache = cache_of(run)
    assert RunIndex(run_cache, RunFilter()).find(BATCH) is None
    assert RunIndex(run_cache, RunFilter(any_version=True)).find(BATCH).runs == (run,)


def test_the_same_torch_built_for_another_machine_counts():
    release = environment.versions()["torch"].partition("+")[0]
    run = made(BATCH, versions=made(BATCH).versions | {"torch": f"{release}+elsewhere"})
    assert RunIndex(cache_of(run), RunFilter()).find(BATCH).runs == (run,)


@pytest.mark.parametrize(
    ("run_filter", "count"),
    [
        (RunFilter(), 2),
        (RunFilter("cpu"), 1),
        (RunFilter("cuda"), 1),
        (RunFilter(precision="bfloat16"), 1),
        (RunFilter("cuda", "float32"), 0),
    ],
)
def test_machines_count_alike_unless_one_is_asked_for(run_filter, count):
    runs = [made(BATCH, 0), made(BATCH, 1, device="cuda", precision="bfloat16")]
    assert len(RunIndex(cache_of(*runs), run_filter).seeds(BATCH)) == count


def test_what_must_have_been_measured_must_have_been():
    wanted = Scope().batch(CLNR, "cora", extra_metrics=("clusters",))
    run_index = RunIndex(cache_of(made(BATCH, 0), made(BATCH, 1, extra_metrics={"clusters": {}, "points": {}})), RunFilter())
    assert list(run_index.seeds(wanted)) == [1]
    assert sorted(run_index.seeds(BATCH)) == [0, 1]


def test_runs_of_a_method_or_recipe_that_is_no_more_are_passed_over():
    gone = made(BATCH, recipe={"banana": 1})
    run_index = RunIndex(cache_of(gone, made(BATCH, method="Nobody"), made(BATCH, 2)), RunFilter())
    assert list(run_index.seeds(BATCH)) == [2]


def test_a_recipe_with_keys_that_were_removed_is_that_without_them():
    removed = dict.fromkeys(REMOVED_KEYS, 1)
    gone = made(BATCH, method="CLNR-HalfHop", recipe=BATCH.recipe.to_dict() | removed)
    run_cache = cache_of(gone, made(BATCH, 1, recipe=BATCH.recipe.to_dict() | removed))
    assert list(RunIndex(run_cache, RunFilter(any_version=True)).seeds(BATCH)) == [1]
    ((_, shown),) = run_cache.runs("CLNR-HalfHop")
    assert (shown.strict, shown.recipe) == (gone.strict, BATCH.recipe.to_dict())


def test_a_recipe_from_before_a_key_was_known_has_its_default():
    any_version = {key: value for key, value in BATCH.recipe.to_dict().items() if key != "edge_noise"}
    run_index = RunIndex(cache_of(made(BATCH, recipe=any_version)), RunFilter())
    assert list(run_index.seeds(BATCH)) == [0]


def test_what_others_write_is_seen_after_reading_anew():
    run_cache = cache_of()
    run_index = RunIndex(run_cache, RunFilter())
    run_cache.add("new", made(BATCH))
    assert run_index.find(BATCH) is None
    run_index.refresh()
    found = run_index.find(BATCH)
    assert run_index.day(found.runs[0]) == run_cache.runs()[0][0][:10]
    assert code_digest.code_version() == found.runs[0].versions["code"]

from __future__ import annotations

import dataclasses

import pytest
from reproduce.paper_runs.run_index import ResultSet, RunFilter, RunIndex, accuracy
from reproduce.paper_runs.scope import Scope

from clnr import methods
from clnr.errors import DataError
from clnr.experiments.results import Summary
from clnr.methods import CLNR, GRACE
from clnr.support.machine import environment
from tests.reproduce.made import cache_of, made, results_of

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
        (RunFilter("cuda"), 1),
        (RunFilter(precision="bfloat16"), 1),
        (RunFilter("cuda", "float32"), 0),
    ],
)
def test_machines_count_alike_unless_one_is_asked_for(run_filter, count):
    runs = [made(BATCH, 0), made(BATCH, 1, device="cuda", precision="bfloat16")]
    assert len(RunIndex(cache_of(*runs), run_filter).seeds(BATCH)) == count


def test_runs_of_a_method_or_recipe_that_is_no_more_are_passed_over():
    gone = made(BATCH, recipe={"banana": 1})
    without = {key: value for key, value in BATCH.recipe.to_dict().items() if key != "edge_noise"}
    old = made(BATCH, 2, recipe=without)  # From before a key was known: it has its default.
    assert list(RunIndex(cache_of(gone, made(BATCH, method="Nobody"), old), RunFilter()).seeds(BATCH)) == [2]
    assert not RunIndex(cache_of(old), RunFilter()).seeds(Scope().batch(CLNR, "cora", extra_metrics=("clusters",)))


def test_what_others_write_is_seen_after_reading_anew():
    run_cache = cache_of()
    run_index = RunIndex(run_cache, RunFilter())
    run_cache.add("new", made(BATCH))
    assert run_index.find(BATCH) is None
    run_index.refresh()
    assert run_index.day(run_index.find(BATCH).runs[0]) == run_cache.runs()[0][0][:10]


# -- with the reason why some are missing -----------------------------------------------------------------------------------


def test_why_there_is_nothing_is_told_in_two_words():
    assert results_of().find(BATCH) == "not run"
    assert results_of(without={"cora": "no"}).find(BATCH) == "no data"
    assert results_of(failures={BATCH.kind: "out of memory"}).find(BATCH) == "failed"
    # What there is counts, whatever went wrong since.
    assert isinstance(results_of(made(BATCH), failures={BATCH.kind: "x"}, without={"cora": "no"}).find(BATCH), Summary)


def test_data_that_cannot_be_had_is_noted(tmp_path):
    def no_net(url, target):
        raise DataError("there is no net")

    results = results_of(data_root=tmp_path, fetch=no_net)
    assert results.load("cora") is None
    assert results.load("cora") is None
    assert results.load("toy").num_nodes == 2400
    assert list(results.without) == ["cora"]
    assert "there is no net" in results.without["cora"]


def test_provenance_names_command_seeds_machine_versions_and_duration():
    runs = [made(BATCH, 0), made(BATCH, 1, machine="another", precision="bfloat16", seconds=40.0)]
    results = results_of(*runs)
    said = results.provenance("clnr table 9", [BATCH, BATCH, Scope(seeds=2).batch(GRACE, "cora")])
    code, torch = (runs[0].versions[each] for each in ("code", "torch"))
    day = results.run_index.day(results.runs([BATCH])[0])
    assert said == (
        "Made by `clnr table 9` from 2 runs, seeds 0 to 1; a processor, float32; another, bfloat16; "
        f"clnr 0.1.0 (code {code}), torch {torch}, Python 3.11.0; {day}; the runs took 42 s of that machine's time."
    )
    assert results_of().provenance("clnr table 9", []) == "Made by `clnr table 9`."


def test_codes_with_the_same_versions_are_listed_together():
    batch = Scope(seeds=3).batch(CLNR, "cora")
    runs = [made(batch, seed) for seed in range(3)]
    runs[1] = dataclasses.replace(runs[1], versions={**runs[1].versions, "code": "0000"})
    runs[2] = dataclasses.replace(runs[2], versions={**runs[2].versions, "torch": "9.9"})
    code, torch = (runs[0].versions[each] for each in ("code", "torch"))
    results = ResultSet(RunIndex(cache_of(*runs), RunFilter(any_version=True)))
    said = results.provenance("clnr table 9", [batch])
    listed = [f"clnr 0.1.0 (code 0000, {code}), torch {torch}, Python 3.11.0", f"clnr 0.1.0 (code {code}), torch 9.9, Python"]
    assert all(each in said for each in listed)
    assert said.count("(code ") == 2


def test_accuracies_as_text():
    summary = Summary.of([made(BATCH, 0), made(BATCH, 1)])
    assert accuracy(summary, "strict") == "80.50 ± 0.50"
    assert accuracy(summary, "paper", usual=2) == "81.50 ± 0.50"
    assert accuracy(summary, "paper", usual=20) == "81.50 ± 0.50 (2)"
    assert accuracy(Summary.of([made(BATCH)]), "strict") == "80.00"
    assert accuracy("not run", "strict") == "not run"

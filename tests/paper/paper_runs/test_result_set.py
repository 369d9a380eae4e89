from __future__ import annotations

import dataclasses

from clnr.errors import DataError
from clnr.experiments.results import Summary
from clnr.methods import CLNR, GRACE
from clnr.paper.paper_runs.result_set import ResultSet, accuracy, mean
from clnr.paper.paper_runs.run_index import RunFilter, RunIndex
from clnr.paper.paper_runs.scope import Scope
from tests.paper.made import cache_of, made

SCOPE = Scope(seeds=2)
BATCH = SCOPE.batch(CLNR, "cora")


def results(*runs, **more):
    return ResultSet(RunIndex(cache_of(*runs), RunFilter()), **more)


def test_why_there_is_nothing_is_told_in_two_words():
    assert results().find(BATCH) == "not run"
    assert results(without={"cora": "no"}).find(BATCH) == "no data"
    assert results(failures={BATCH.kind: "out of memory"}).find(BATCH) == "failed"
    # What there is counts, whatever went wrong since.
    assert isinstance(results(made(BATCH), failures={BATCH.kind: "x"}, without={"cora": "no"}).find(BATCH), Summary)


def test_data_that_cannot_be_had_is_noted(tmp_path):
    def no_net(url, target):
        raise DataError("there is no net")

    shelf = results(data_root=tmp_path, fetch=no_net)
    assert shelf.load("cora") is None
    assert shelf.load("cora") is None
    assert shelf.load("toy").num_nodes == 2400
    assert list(shelf.without) == ["cora"]
    assert "there is no net" in shelf.without["cora"]


def test_provenance_names_command_seeds_machine_versions_and_duration():
    runs = [made(BATCH, 0), made(BATCH, 1, machine="another", precision="bfloat16", seconds=40.0)]
    shelf = results(*runs)
    said = shelf.provenance("clnr table 9", [BATCH, BATCH, SCOPE.batch(GRACE, "cora")])
    code, torch = (runs[0].versions[each] for each in ("code", "torch"))
    day = shelf.run_index.day(shelf.runs([BATCH])[0])
    assert said == (
        "Made by `clnr table 9` from 2 runs, seeds 0 to 1; a processor, float32; another, bfloat16; "
        f"clnr 0.1.0 (code {code}), torch {torch}, Python 3.11.0; {day}; the runs took 42 s of that machine's time."
    )
    assert results().provenance("clnr table 9", []) == "Made by `clnr table 9`."


def test_codes_with_the_same_versions_are_listed_together():
    batch = Scope(seeds=3).batch(CLNR, "cora")
    runs = [made(batch, seed) for seed in range(3)]
    runs[1] = dataclasses.replace(runs[1], versions={**runs[1].versions, "code": "0000"})
    runs[2] = dataclasses.replace(runs[2], versions={**runs[2].versions, "torch": "9.9"})
    code, torch = (runs[0].versions[each] for each in ("code", "torch"))
    shelf = ResultSet(RunIndex(cache_of(*runs), RunFilter(any_version=True)))
    said = shelf.provenance("clnr table 9", [batch])
    listed = [f"clnr 0.1.0 (code 0000, {code}), torch {torch}, Python 3.11.0", f"clnr 0.1.0 (code {code}), torch 9.9, Python"]
    assert all(each in said for each in listed)
    assert said.count("(code ") == 2


def test_accuracies_as_text():
    found = Summary.of([made(BATCH, 0), made(BATCH, 1)])
    assert accuracy(found, "strict") == "80.50 ± 0.50"
    assert accuracy(found, "paper", usual=2) == "81.50 ± 0.50"
    assert accuracy(found, "paper", usual=20) == "81.50 ± 0.50 (2)"
    assert accuracy(Summary.of([made(BATCH)]), "strict") == "80.00"
    assert accuracy("not run", "strict") == "not run"
    assert (mean(found), mean("no data")) == (80.5, None)

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from clnr.embedding import job
from clnr.embedding.fit_settings import Settings
from clnr.embedding.graph_sources import as_table_graph
from clnr.embedding.job_sources import InMemory
from clnr.embedding.planning import calibration
from clnr.embedding.planning.memory_plan import plan
from clnr.embedding.store.output_folder import Output
from clnr.engine import cpu_engine
from clnr.methods import CLNR_MIX
from clnr.support.stage_clock import StageClock, StageTime, use_clock
from tests.conftest import tiny


def record(stage, modelled, measured, machine="mine"):
    calibration.record(machine, {stage: modelled}, [StageTime(stage, measured)])


def corrected(stage, modelled, machine="mine"):
    seconds, known = calibration.corrected(machine, {stage: modelled})
    return seconds[stage] if known else None


def test_an_estimate_is_the_median_of_the_last_five_runs():
    assert corrected("train", 4.0) is None
    for ratio in (100, 100, 2, 3, 5, 4, 1):
        record("train", 2.0, 2.0 * ratio)
    assert corrected("train", 4.0) == pytest.approx(4 * 3)
    assert corrected("train", 4.0, "another") is None
    assert corrected("embed", 4.0) is None


def test_runs_of_another_size_count_less_the_less_alike_they_are():
    record("train", 2.0, 20.0)
    record("train", 200.0, 100.0)
    assert corrected("train", 1.0) == 10
    assert corrected("train", 300.0) == 150
    assert corrected("train", 2000.0) == 1000
    assert corrected("train", 3600e3) is None


def test_what_is_too_short_to_tell_is_not_kept():
    for modelled, measured in ((0.0, 5.0), (1e-4, 5.0)):
        record("write", modelled, measured)
    assert corrected("write", 1e-4) is None


def test_only_the_last_machines_are_kept():
    for number in (*range(30), 15, 30):
        record("train", 1.0, 2.0, f"machine {number}")
    kept = {number for number in range(31) if corrected("train", 1.0, f"machine {number}")}
    assert kept == {*range(11, 31)}


DAMAGED = ["", "{", "[]", "null", '{"mine": 3}', '{"mine": {"train": [2]}}', '{"mine": {"no stage": {"0": [2]}}}']
NO_RATIOS = ('"2"', "[null]", "[true]", "[-2]", "[NaN]", "[1e9]", "[1,1,1,1,1,1]")
DAMAGED += [f'{{"mine": {{"train": {{"0": {each}}}}}}}' for each in NO_RATIOS]
DAMAGED += ["[" * 100_000]


@pytest.mark.parametrize("content", DAMAGED, ids=lambda content: content[:40])
def test_a_damaged_file_is_as_none_and_is_written_anew(home, content):
    path = home / "cache" / "stage_seconds.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert corrected("train", 2.0) is None
    record("train", 2.0, 6.0)
    assert corrected("train", 2.0) == 6
    assert json.loads(path.read_text()) == {"mine": {"train": {"0": [3.0]}}}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_is_no_error(home):
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_text("not a folder")
    record("train", 2.0, 6.0)
    assert corrected("train", 2.0) is None


def test_the_next_estimate_is_what_a_run_took_and_changes_no_result(tmp_path, home):
    """By a clock that moves an hour each time that it is looked at."""
    table_graph, settings = as_table_graph(tiny()), Settings(CLNR_MIX, cpu_engine(), changes={"epochs": 2, "dimension": 8})
    job.fit(table_graph, settings)
    assert not (home / "cache" / "stage_seconds.json").exists(), "where nothing is written, nothing is"
    _, first = plan(table_graph, settings)
    assert ", a rough estimate" in first.lines[-1]
    clock = StageClock(now=itertools.count(step=3600.0).__next__)
    with use_clock(clock):
        before = job.embed(lambda: InMemory(table_graph), settings, Output(tmp_path / "first"))
    _, second = plan(table_graph, settings)
    assert ", estimated from earlier runs on this machine" in second.lines[-1]
    took = {each.stage: each.seconds for each in clock.stages if each.stage in first.modelled}
    assert {"train", "fit the read-out", "embed", "score", "baselines"} <= took.keys()
    believed = {stage: min(seconds, 100 * first.modelled[stage]) for stage, seconds in took.items()}
    assert {stage: second.estimate[stage] for stage in took} == pytest.approx(believed, rel=0.01)
    assert second.modelled == first.modelled
    after = job.embed(lambda: InMemory(table_graph), settings, Output(tmp_path / "second"))
    assert np.array_equal(before.z, after.z)
    assert before.scores == after.scores

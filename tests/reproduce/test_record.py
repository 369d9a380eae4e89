from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from reproduce.pages import needs
from reproduce.record import SETS, Record, batch, cluster_scores, make, make_missing

from clnr import CLNR, load, methods, run
from clnr.datasets.splits import split_of
from clnr.engine import choose, cpu_engine
from clnr.errors import ClnrError, DataError, TrainingError
from clnr.evaluation.geometry import alignment
from clnr.experiments.learn import learn
from clnr.methods import BASELINES, GRACE, METHODS
from clnr.support.storage import lock
from reproduce import record
from tests.reproduce.made import made

BATCH = batch(CLNR, "cora", 3)
SMALL = {"epochs": 2, "hidden": 8, "dimension": 2, "probe_steps": 5}
TOY = batch(CLNR, "toy", 2, **SMALL)


def test_runs_are_found_by_what_they_are_of():
    others = [batch(GRACE, "cora"), batch(CLNR, "pubmed"), batch(CLNR, "cora", temperature=0.9)]
    found = Record([*map(made, others), made(BATCH, 7), made(BATCH, 1), made(BATCH, 0)]).find(BATCH)
    assert [each.seed for each in found] == [0, 1]


def test_of_two_runs_of_a_seed_the_later_counts_if_it_has_the_metrics():
    timed = batch(CLNR, "cora", 3, "time")
    lines = [made(BATCH, strict=1.0, extra_metrics={"time": {}}), made(BATCH, strict=2.0)]
    assert [Record(lines).find(each)[0].strict for each in (BATCH, timed)] == [2.0, 1.0]
    assert Record(lines[1:]).find(timed) == []


def test_keys_that_a_method_has_no_use_for_make_no_difference():
    assert batch(CLNR, "cora", momentum=0.5).changed == batch(CLNR, "cora", dimension=512).changed == ""
    assert batch(CLNR, "cora", edge_noise=0.3, dimension=64).changed == "edge_noise=0.3 dimension=64"


def test_slow_methods_have_fewer_seeds_and_close_ones_more_unless_said():
    seeds = {("CLNR", "cora"): 20, ("BGRL", "cora"): 10, ("CLNR", "cs"): 120, ("GRACE", "cs"): 120, ("CCA-SSG", "cs"): 20}
    for (method, dataset), usual in seeds.items():
        assert [batch(METHODS[method], dataset, asked).seeds for asked in (None, 5)] == [usual, 5]


def test_the_paper_needs_all_methods_on_all_data_sets():
    ours = {method.name for method in METHODS.values() if method.readout or method in BASELINES}
    assert {(each.method.name, each.dataset) for each in needs()} >= {(a, b) for a in METHODS.keys() - ours for b in SETS}


def test_the_platform_with_most_runs_is_the_one_compared_on():
    lines = [made(BATCH, 0), made(BATCH, 1, machine="another"), made(BATCH, 2)]
    assert [each.seed for each in Record(lines).on_one_platform([BATCH]).find(BATCH)] == [0, 2]


def test_a_run_read_is_the_run_that_was_written(tmp_path):
    run = made(BATCH, 1, strict=100 / 3, uniformity=math.nan, machine='a "GPU", one', extra_metrics={"points": {"u": [[1.0]]}})
    Record([run]).write(tmp_path / "runs.csv")
    (read,) = Record.read(tmp_path / "runs.csv").lines
    assert math.isnan(read.uniformity)
    assert read._replace(uniformity=0.0) == run._replace(uniformity=0.0, strict=33.3333)


@pytest.mark.parametrize(
    "edit",
    [
        lambda head, line: [b"method,dataset", b"CLNR,cora"],
        lambda head, line: [head, line.rpartition(b",")[0]],
        lambda head, line: [head, line.replace(b",81,", b",a,")],
    ],
)
def test_another_file_is_refused_with_its_name(tmp_path, edit):
    path = tmp_path / "runs.csv"
    Record([made(BATCH, 1)]).write(path)
    path.write_bytes(b"\n".join(edit(*path.read_bytes().splitlines())) + b"\n")
    with pytest.raises(DataError, match=r"runs\.csv"):
        Record.read(path)


def test_what_a_record_lacks_is_made_and_added_to_it(tmp_path, monkeypatch):
    path, asked, runs = tmp_path / "runs.csv", [], record.runs
    monkeypatch.setattr(record, "runs", lambda *given, **more: asked.append(given[2]) or runs(*given, **more))
    assert make_missing(path, [TOY._replace(seeds=1)], "cpu", "auto")
    assert make_missing(path, [TOY, TOY], "cpu", "auto")
    assert asked == [[0], [1]]
    expected = [run(CLNR, "toy", seed, recipe=TOY.recipe, device="cpu") for seed in (0, 1)]
    found = Record.read(path).find(TOY)
    for name in ("strict", "paper", "validation", "epochs"):
        assert [getattr(each, name) for each in found] == pytest.approx([getattr(each, name) for each in expected])
    assert found[0].changed == TOY.changed != ""


def test_metrics_are_of_the_same_run_and_of_its_embedding():
    graph = load("toy")
    clustered, drawn = (next(make(TOY._replace(extra=each), [1], "cpu")) for each in ("clusters", "points"))
    alone = run(CLNR, graph, 1, recipe=TOY.recipe, device="cpu")
    assert clustered.strict == drawn.strict == alone.strict
    z = learn(CLNR, graph, 1, TOY.recipe, choose("cpu")).z.numpy()
    assert clustered.extra_metrics["clusters"] == cluster_scores(z, graph.labels)
    points, nodes = drawn.extra_metrics["points"], split_of(graph, 1).validation
    u, v = (torch.tensor(points[name]) for name in "uv")
    assert points["classes"] == graph.labels[nodes].tolist()
    assert np.allclose(u.norm(dim=1), 1, atol=1e-4)
    assert alignment(u, v) == pytest.approx(alone.alignment, abs=1e-4)


def test_timed_runs_are_made_alone(monkeypatch):
    monkeypatch.setattr(type(cpu_engine()), "parallel_seeds", 8)
    found = list(make(TOY._replace(extra="time"), [0, 1], "cpu"))
    assert [each.extra_metrics["time"]["parallel_seeds"] for each in found] == [1, 1]
    assert [each.parallel_seeds for each in make(TOY, [0, 1], "cpu")] == [2, 2]


def test_a_training_that_fails_is_named_and_the_others_are_made(tmp_path, monkeypatch, capsys):
    def broken(method, *given, **more):
        if method is CLNR:
            raise TrainingError("the loss became nan")
        yield from real(method, *given, **more)

    real, path = record.runs, tmp_path / "runs.csv"
    monkeypatch.setattr(record, "runs", broken)
    assert not make_missing(path, [TOY, batch(methods.RAW, "toy", 1, probe_steps=5)], "cpu", "auto")
    assert re.search(r"^CLNR toy .*: the loss became nan$", capsys.readouterr().out, re.M)
    assert [each.method for each in Record.read(path).lines] == ["Raw"]


def test_a_record_that_another_process_adds_to_is_left_alone(tmp_path):
    with lock(tmp_path / "runs.csv.making"), pytest.raises(ClnrError):
        make_missing(tmp_path / "runs.csv", [TOY], "cpu", "auto")

from __future__ import annotations

import csv
import dataclasses
import io
import math

import pytest
from reproduce.paper_runs.run_index import ResultSet, RunFilter, RunIndex
from reproduce.paper_runs.runs_file import RunsFiles, write_runs
from reproduce.paper_runs.scope import Scope

from clnr import methods
from clnr.errors import DataError
from reproduce import figures
from tests.command_line import assert_refused
from tests.reproduce.made import cache_of, made

SCOPE = Scope(seeds=2)
BATCH = SCOPE.batch(methods.CLNR, "cora")
NOISY = SCOPE.batch(methods.CLNR, "cora", edge_noise=0.5)


def written(folder, *runs, batches=(BATCH, NOISY)):
    return write_runs(ResultSet(RunIndex(cache_of(*runs), RunFilter(any_version=True))), batches, folder)


def test_every_run_is_listed_once_with_what_was_changed(tmp_path):
    runs = [made(BATCH, 1), made(BATCH, 0), made(NOISY, 0, strict=70.125)]
    path = written(tmp_path, *runs, batches=(BATCH, NOISY, BATCH))
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [(row["method"], row["dataset"], row["seed"], row["strict"], row["changed"]) for row in rows] == [
        ("CLNR", "cora", "0", "80", ""),
        ("CLNR", "cora", "1", "81", ""),
        ("CLNR", "cora", "0", "70.125", "edge_noise=0.5"),
    ]


def test_a_run_read_is_the_run_that_was_written_but_for_what_no_table_shows(tmp_path):
    extra = {"clusters": {"silhouette": 0.123456789}, "points": {"u": [[1.0, 0.0]], "classes": [3]}}
    run = made(NOISY, 1, strict=100 / 3, uniformity=math.nan, machine='a "GPU", one', extra_metrics=extra, device="cuda")
    ((day, read),) = RunsFiles([written(tmp_path, run)]).runs()
    assert len(day) == len("2026-11-17")
    assert read.extra_metrics == {"clusters": {"silhouette": 0.123457}, "points": extra["points"]}
    assert read.strict == 33.3333
    assert math.isnan(read.uniformity)
    same = ("strict", "uniformity", "extra_metrics")
    gone = {"epoch_ms": None, "peak_memory_bytes": 0, "engine": "", "content": ""}
    assert read == dataclasses.replace(run, **{name: getattr(read, name) for name in same}, **gone)


def test_what_is_written_from_a_file_is_that_file(tmp_path):
    timed = [made(BATCH, seed, strict=50 + seed, extra_metrics={"time": {"train_seconds": 1 / 3}}) for seed in (0, 1)]
    batches = (BATCH, SCOPE.batch(methods.CLNR, "cora", None, ["time"]))
    first = written(tmp_path / "first", *timed, made(BATCH, 0, strict=60.0), batches=batches)
    results = ResultSet(RunIndex(RunsFiles([first]), RunFilter(any_version=True)))
    assert [run.strict for run in results.find(BATCH).runs] == [60, 51]
    again = write_runs(results, batches, tmp_path / "again")
    assert again.read_bytes() == first.read_bytes()
    assert len(RunsFiles([first]).runs()) == 3


def test_runs_of_several_files_come_together_and_the_later_file_counts(tmp_path, monkeypatch):
    one = written(tmp_path / "one", made(BATCH, 0, strict=1.0), made(BATCH, 1, strict=2.0))
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "other"))
    two = written(tmp_path / "two", made(BATCH, 1, strict=3.0), made(NOISY, 0))
    both = RunIndex(RunsFiles([one, two]), RunFilter(any_version=True))
    assert [run.strict for run in both.find(BATCH).runs] == [1, 3]
    assert both.find(NOISY) is not None
    grace = SCOPE.batch(methods.GRACE, "cora")
    assert RunIndex(RunsFiles([one, two]), RunFilter(any_version=True), of=grace).find(BATCH) is None


def changed(path, **cells):
    """The file with some cells of its second line changed."""
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    rows[1] |= cells
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(out.getvalue())


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"method": "CLNQ"}, "'CLNQ'"),
        ({"seed": "one"}, "'one'"),
        ({"seed": "-1"}, "-1 for its seed"),
        ({"strict": "inf"}, "inf for its strict"),
        ({"changed": "epoch_noise=0.5"}, "epoch_noise"),
        ({"changed": "edge_noise=many"}, "edge_noise"),
        ({"extra_metrics": "[1]"}, "a JSON object, not [1]"),
        ({"extra_metrics": "[" * 100_000}, "a JSON object, not [[["),
    ],
)
def test_a_bad_cell_is_refused_with_its_line(tmp_path, cells, says):
    path = written(tmp_path, made(BATCH, 0), made(BATCH, 1))
    changed(path, **cells)
    with pytest.raises(DataError) as refused:
        RunsFiles([path])
    assert "runs.csv, line 3: " in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda head, line: [b""], "no column method"),
        (lambda head, line: [b"method,dataset", b"CLNR,cora"], "no column seed"),
        (lambda head, line: [b"\xff\xfe"], "not a CSV file in UTF-8"),
        (lambda head, line: [head, line + b",1"], "line 2, has another number of cells"),
        (lambda head, line: [head, line.rpartition(b",")[0]], "line 2, has another number of cells"),
    ],
)
def test_another_file_is_refused(tmp_path, edit, says):
    path = written(tmp_path, made(BATCH, 0))
    path.write_bytes(b"\n".join(edit(*path.read_bytes().splitlines())) + b"\n")
    with pytest.raises(DataError, match=says):
        RunsFiles([path])
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        RunsFiles([path])


@pytest.mark.full
def test_commands_take_it_and_leave_the_run_cache_alone(clnr, tmp_path, monkeypatch):
    runs = [made(figures.noise_batch(SCOPE, methods.CLNR, "cora", 0.5), seed, machine="elsewhere") for seed in (0, 1)]
    old = [dataclasses.replace(run, versions=run.versions | {"code": "older"}) for run in runs]
    path = written(tmp_path, *old)
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "home"))
    shown = clnr("table", "2", "--methods", "CLNR", "--datasets", "cora", "--runs", path)
    assert (shown.code, shown.err) == (0, "")
    assert "no data" in shown.out
    drawn = clnr("figure", "4", "--runs", path, "--out", tmp_path / "drawn")
    assert drawn.code == 0
    assert "80.50 ± 0.50 (2)" in (tmp_path / "drawn" / "figure-4.csv").read_text()
    assert "code older" in clnr("claims", "--runs", path).out
    assert not (tmp_path / "home").exists()
    refused = assert_refused(clnr("paper", "--runs", tmp_path / "none.csv", "--out", tmp_path / "out"))
    assert "none.csv cannot be read" in refused
    assert "--dry-run" in assert_refused(clnr("paper", "--runs", path, "--dry-run"))

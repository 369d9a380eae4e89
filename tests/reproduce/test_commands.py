"""The commands that regenerate the paper, as their users meet them."""

from __future__ import annotations

import csv
import io

import pytest
from reproduce.exhibits import EXHIBITS

from clnr import run
from clnr.errors import TrainingError
from clnr.experiments.run_cache import RunCache
from clnr.methods import CLNR, GRACE
from reproduce.paper_runs import scope
from tests.command_line import assert_refused

pytest.importorskip("matplotlib")

SMALL = ("--datasets", "toy", "--methods", "CLNR,GRACE", "--seeds", "1", "--quick", "--device", "cpu")


@pytest.mark.full
def test_the_whole_paper_from_nothing(clnr, tmp_path, monkeypatch):
    """The smallest form of it, end to end; then again, with nothing left to do."""
    monkeypatch.setattr(scope, "_QUICK_RECIPE_LIMITS", {"epochs": 2, "probe_steps": 20, "hidden": 32})
    first = clnr("paper", *SMALL, "--out", tmp_path / "first")
    assert first.code == 0, first.err
    written = [line.rpartition("/")[2] for line in first.out.splitlines()]
    exhibits = {exhibit.name for exhibit in EXHIBITS}
    assert {name.rpartition(".")[0] for name in written} == exhibits | {"authors", "claims", "runs"}
    assert sorted(written) == sorted(path.name for path in (tmp_path / "first").iterdir())
    assert "0 in the run cache" in first.err
    table = list(csv.reader(io.StringIO((tmp_path / "first" / "table-2.csv").read_text())))
    assert [row[0] for row in table[1:]] == ["GRACE", "GRACE", "CLNR", "CLNR"]
    for method, line in ((GRACE, 1), (CLNR, 3)):
        recipe = scope.Scope(quick=True).batch(method, "toy").recipe
        alone = run(method, "toy", recipe=recipe, device="cpu")
        assert [table[line][2], table[line + 1][2]] == [f"{alone.strict:.2f}", f"{alone.paper:.2f}"]
    count = len(RunCache().runs())
    second = clnr("paper", *SMALL, "--out", tmp_path / "second")
    assert second.err.startswith("0 runs to do, ")
    assert len(RunCache().runs()) == count
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()
    alone = clnr("table", 2, *SMALL)
    assert alone.out == (tmp_path / "first" / "table-2.md").read_text()
    # All of it once more, from its file of runs alone.
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "elsewhere"))
    third = clnr("paper", *SMALL, "--runs", tmp_path / "first" / "runs.csv", "--out", tmp_path / "third")
    assert (third.code, third.err) == (0, "")
    for name in ("runs.csv", "table-2.md", "figure-1.svg"):
        assert (tmp_path / "third" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
    assert not (tmp_path / "elsewhere").exists()


def test_a_table_that_needs_no_runs_is_printed_at_once(clnr):
    assert clnr("table", "1").out.startswith("## Table 1. Architectures\n")
    rows = list(csv.reader(io.StringIO(clnr("table", "5", "--format", "csv", "--datasets", "cora").out)))
    assert rows[1] == ["Cora", "50", "2", "512", "0.5", "0.001", "0", "0.2", "0.5", "0.005", "0.0001"]
    assert "\\toprule" in clnr("table", "5", "--format", "latex", "--datasets", "cora").out
    assert not RunCache().path.exists()


def test_a_plan_is_told_and_nothing_done(clnr):
    ended = clnr("table", "2", *SMALL, "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("2 runs to do, 0 in the run cache; about ")
    assert not RunCache().path.exists()


def test_as_is_shows_what_there_is_and_runs_nothing(clnr):
    ended = clnr("table", "2", *SMALL, "--cached-only")
    assert ended.code == 0
    assert "| CLNR | strict | not run |" in ended.out
    assert not RunCache().path.exists()


def test_a_failed_training_is_told_and_the_table_still_made(clnr, monkeypatch):
    def broken(*arguments, **more):
        raise TrainingError("the loss became nan")

    monkeypatch.setattr("reproduce.paper_runs.executor.runs", broken)
    ended = clnr("table", "2", *SMALL)
    assert ended.code == 2
    assert "| CLNR | strict | failed |" in ended.out
    assert "the loss became nan" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("table", "7"), "the paper has no table 7; it has 1 architectures"),
        (("figure", "0"), "the paper has no figure 0"),
        (("table", "1", "--format", "word"), "unknown format 'word'"),
        (("table", "2", "--datasets", ","), "--datasets needs a name"),
        (("table", "2", "--seeds", "0"), "--seeds must be at least 1"),
        (("paper", "--jobs", "0"), "--jobs must be at least 1"),
    ],
)
def test_wrong_words_are_refused_in_one_line(clnr, words, said):
    assert said in assert_refused(clnr(*words))


def test_a_folder_that_cannot_be_written_is_told(clnr, tmp_path):
    (tmp_path / "file").write_text("x")
    said = assert_refused(clnr("paper", *SMALL, "--out", tmp_path / "file"))
    assert "file cannot be made a folder" in said
    assert not RunCache().path.exists()

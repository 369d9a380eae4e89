"""The commands, as their users meet them."""

from __future__ import annotations

import sys

import pytest
from reproduce.__main__ import main
from reproduce.record import PAPER, Record, batch

from clnr import CLNR
from clnr.methods import GRACE
from reproduce import pages
from tests.command_line import Ended


@pytest.fixture
def reproduce(monkeypatch, capsys):
    def call(*words) -> Ended:
        monkeypatch.setattr(sys, "argv", ["reproduce", *map(str, words)])
        capsys.readouterr()
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
        return Ended(code, *capsys.readouterr())

    return call


@pytest.mark.full
def test_the_paper_is_what_its_record_makes(reproduce, tmp_path, monkeypatch):
    """Every page of docs/paper, but for table 4, which counts in the data; pictures depend on matplotlib."""
    monkeypatch.setattr(pages, "write_picture", lambda figure, path: path.touch())
    assert reproduce("paper", "--out", tmp_path) == (0, "", "")
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in PAPER.iterdir() if path.name not in ("README.md", "runs.csv")}
    assert made.keys() == kept.keys()
    for name in made:
        if name.endswith((".csv", ".md")) and not name.startswith("table-4"):
            assert made[name] == kept[name], name


def test_a_table_is_printed_and_a_figure_is_written(reproduce, tmp_path):
    assert reproduce("table", 5).out == (PAPER / "table-5.md").read_text()
    assert reproduce("figure", 1, "--out", tmp_path).code == 0
    assert (tmp_path / "figure-1.csv").read_bytes() == (PAPER / "figure-1.csv").read_bytes()


@pytest.mark.full
def test_runs_are_made_from_nothing_by_name_and_not_again(reproduce, tmp_path, monkeypatch):
    small = {"epochs": 2, "hidden": 8, "dimension": 4, "probe_steps": 5}
    batches = [batch(CLNR, "toy", 2, extra, **small) for extra in ("", "clusters", "time")] + [batch(GRACE, "toy", 1, **small)]
    monkeypatch.setattr(pages, "needs", lambda: batches)
    words = ["runs", "--record", tmp_path / "runs.csv", "--methods", "clnr", "--datasets", "toy", "--device", "cpu"]
    assert reproduce(*words, "--seeds", "1").out.count("\n") == 2
    assert reproduce(*words).out.count("\n") == 2
    assert reproduce(*words).out == ""
    record = Record.read(tmp_path / "runs.csv")
    assert [len(record.find(each)) for each in batches] == [2, 2, 2, 0]
    assert len(record.lines) == 4


def test_search_prints_trials_the_best_first(reproduce):
    words = ["search", "Raw", "toy", "--grid", "probe_steps=1,60", "--seeds", "1", "--device", "cpu"]
    ended = reproduce(*words)
    assert ended.code == 0
    assert [line.split()[1] for line in ended.out.splitlines()] == ["probe_steps", "---", "60", "1"]


def test_wrong_words_are_refused_with_exit_code_2(reproduce):
    search, runs = ("search", "CLNR", "toy", "--grid"), ("runs", "--record", "nowhere.csv")
    wrong = [("table", "7"), ("paper", "--record", "nowhere.csv"), (*search, "epochs=1", "--seeds", "0"), (*search, "epochs")]
    wrong += [(*runs, "--methods", "nobody"), (*runs, "--datasets", "nowhere"), ("figure", "1", "--out", __file__)]
    for words in wrong:
        ended = reproduce(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "Traceback" not in ended.err
        assert ended.err.splitlines()[-1].strip()

"""The command line as its users meet it: results on standard output, all else on standard error, errors in one line."""

from __future__ import annotations

import json
import re
import signal
import statistics
import sys
import time
from pathlib import Path

import pytest
import torch

from clnr import __version__, run
from clnr.cli.app import JSON_FORMAT
from clnr.errors import RunCacheError
from clnr.experiments.run_cache import RunCache
from clnr.methods import CLNR, METHODS
from clnr.methods.presets import preset
from tests.command_line import assert_refused, only_json, run_script, started

QUICK = {"epochs": 2, "probe_steps": 20, "hidden": 16, "dimension": 16}
SET = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
RUN = ["run", "CLNR", "toy", "--device", "cpu", *SET]


def test_the_command_and_python_give_the_same_numbers(clnr):
    ended = clnr(*RUN, "--seeds", "2", "--precision", "float32", "--threads", "2", "--json", "--quiet")
    result, recipe = only_json(ended), preset(CLNR, "toy").recipe.but(**QUICK)
    runs = [run("clnr", "toy", seed, recipe=recipe, device="cpu", threads=2) for seed in range(2)]
    assert (ended.err, result["recipe"], result["precision"], result["threads"]) == ("", recipe.to_dict(), "float32", 2)
    assert result["strict"]["runs"] == [each.strict for each in runs]
    assert result["paper"]["runs"] == [each.paper for each in runs]
    for name in ("alignment", "uniformity", "effective_rank"):
        assert result[name] == statistics.fmean(getattr(each, name) for each in runs)


def test_without_a_method_the_baselines_stand_beside_clnr(clnr):
    ended = clnr("run", "--device", "cpu", *SET)
    assert ended.code == 0
    names = [line.split()[0] for line in ended.out.splitlines() if line.split()[0] in METHODS]
    assert names == ["Raw", "Untrained", "CLNR"]
    assert [each.method for _, each in RunCache().runs()] == names


# Others are in transcripts; what each function refuses is tested beside it.
def test_bad_input_is_one_line_and_exit_code_2(clnr):
    assert "unknown device 'banana'" in assert_refused(clnr("runs", "--device", "banana"))
    assert "--seeds" in assert_refused(clnr("run", "--seeds", "many"))


def test_a_record_that_cannot_be_written_is_noticed_before_any_work(clnr, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "file"))
    began = time.monotonic()
    assert str(tmp_path / "file") in assert_refused(clnr("run", "--set", "epochs=10000000"))
    assert time.monotonic() - began < 5


def test_env_says_what_a_bug_report_needs(clnr, home, monkeypatch):
    monkeypatch.setenv("CLNR_DATA", "/some/where")
    facts = only_json(clnr("env", "--json"))
    assert facts.pop("format") == JSON_FORMAT
    assert facts["torch"] == torch.__version__
    assert facts["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert facts["record"] == str(home / "state" / "runs.jsonl")
    assert facts["CLNR_DATA"] == "/some/where"
    lines = clnr("env").out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(facts)
    assert not home.exists()
    assert clnr("--version") == (0, f"clnr {__version__}\n", "")


@pytest.mark.full
def test_ctrl_c_ends_at_once_with_one_line_and_keeps_what_had_ended(home):
    words = ["run", "--device", "cpu", "--quiet", *SET, "--set", "epochs=10000000"]
    with started(*words) as process:
        run_cache, deadline = RunCache(), time.monotonic() + 600
        while not Path(run_cache.path).exists() or [each.method for _, each in run_cache.runs()] != ["Raw", "Untrained"]:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert out == ""
    assert re.fullmatch(r"clnr: [^\n]{1,120}", err.strip()), err
    assert [each.method for _, each in run_cache.runs()] == ["Raw", "Untrained"]


# The program as a shell starts it; when it begins to import a module, it is stopped.
IMPORTING = """
import importlib.abc, runpy, signal, sys

module = sys.argv.pop(1)

class Moment(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Moment())
runpy.run_module("clnr", run_name="__main__", alter_sys=True)
"""


@pytest.mark.full
@pytest.mark.parametrize("module", ["clnr.cli", "torch.nn"])
def test_ctrl_c_while_modules_are_imported_says_nothing(module):
    ended = run_script(IMPORTING, module, *RUN)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


@pytest.mark.filterwarnings("default")
def test_what_could_not_be_recorded_is_shown_all_the_same(clnr, monkeypatch):
    def full(self, key, run, rerun):
        raise RunCacheError("the record is full")

    monkeypatch.setattr(RunCache, "add", full)
    ended = clnr(*RUN, "--quiet")
    assert ended.out.startswith("toy")
    assert (ended.code, ended.err) == (0, "clnr: warning: the record is full\n")


def test_a_recalled_run_names_the_machine_that_made_it(clnr, home):
    only_json(clnr(*RUN, "--json"))
    path = home / "state" / "runs.jsonl"
    run = json.loads(path.read_text())
    path.write_text(json.dumps(run | {"machine": "a machine far away"}) + "\n")
    assert "toy, 1 seed, a machine far away" in clnr(*RUN).out


def test_a_changed_recipe_has_no_published_result_beside_it(clnr, real_data):
    words = ["run", "CLNR", "cora", "--data-root", str(real_data), "--device", "cpu", *SET]
    assert "published" not in clnr(*words).out

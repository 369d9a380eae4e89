"""The command line as its users meet it: results on standard output, all else on standard error, errors in one line."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from clnr import __version__, cli, run
from clnr.bench import BenchmarkResult
from clnr.datasets import DATASETS, download
from clnr.engine import choose
from clnr.errors import RunCacheError, TrainingError
from clnr.experiments import runner
from clnr.experiments.run_cache import RunCache
from clnr.methods import CLNR, METHODS
from clnr.methods.presets import preset
from clnr.methods.recipe import Recipe, recipe_keys

QUICK = {"epochs": 2, "probe_steps": 20, "hidden": 16, "dimension": 16}
SET = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
RUN = ["run", "CLNR", "toy", "--device", "cpu", *SET]
MEASURES = ("alignment", "uniformity", "effective_rank")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def entry_point(monkeypatch, capsys):
    """Calls the entry point as a shell would, in this process."""

    def call(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["clnr", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as error:
            code = error.code or 0
        return Ended(code, *capsys.readouterr())

    return call


@pytest.fixture
def clnr(monkeypatch, capsys):
    return entry_point(monkeypatch, capsys)


def outside(*words: str, **environment: str) -> Ended:
    """The same in a process of its own."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
    ended = subprocess.run([sys.executable, "-m", "clnr", *words], env=env, capture_output=True, text=True, timeout=600)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def assert_refused(ended: Ended) -> str:
    """Exit code 2, one line on standard error, nothing on standard output; returns the line."""
    assert ended.code == 2
    assert ended.out == ""
    assert re.fullmatch(r"clnr: [^\n]+\n", ended.err), ended.err
    assert "Traceback" not in ended.err
    return ended.err


def only_json(ended: Ended):
    assert ended.code == 0, ended.err
    assert ended.out.count("\n") == 1
    return json.loads(ended.out)


# -- run -------------------------------------------------------------------------------------------------------------------


def test_json_is_one_object_with_everything_and_nothing_else(clnr):
    result = only_json(clnr(*RUN, "--seeds", "3", "--json"))
    assert result["method"] == "CLNR"
    assert result["dataset"] == "toy"
    assert result["seeds"] == 3
    assert result["device"] == "cpu"
    for protocol in ("strict", "paper"):
        scores = result[protocol]
        assert set(scores) == {"mean", "std", "runs"}
        assert len(scores["runs"]) == 3
        assert all(0 <= score <= 100 for score in scores["runs"])
        assert scores["mean"] == pytest.approx(sum(scores["runs"]) / 3)
        assert scores["std"] == pytest.approx((sum((s - scores["mean"]) ** 2 for s in scores["runs"]) / 3) ** 0.5)
    assert result["strict"]["std"] > 0
    for name in (*MEASURES, "train_seconds", "epoch_ms"):
        assert isinstance(result[name], float), name
    assert isinstance(result["peak_memory_bytes"], int)
    assert result["epochs"] == QUICK["epochs"]
    assert set(result["recipe"]) == set(recipe_keys())
    assert {name: result["recipe"][name] for name in QUICK} == QUICK
    assert {"clnr", "code", "python", "torch"} <= set(result["versions"])


def test_one_seed_has_no_spread(clnr):
    result = only_json(clnr(*RUN, "--json"))
    assert result["strict"]["std"] == result["paper"]["std"] == 0
    assert result["strict"]["runs"] == [result["strict"]["mean"]]


def test_the_command_and_python_give_the_same_numbers(clnr):
    result = only_json(clnr(*RUN, "--seeds", "2", "--json"))
    recipe = preset(CLNR, "toy").recipe.but(**QUICK)
    runs = [run("clnr", "toy", seed, recipe=recipe, device="cpu") for seed in range(2)]
    assert result["recipe"] == recipe.to_dict()
    assert result["strict"]["runs"] == [each.strict for each in runs]
    assert result["paper"]["runs"] == [each.paper for each in runs]
    for name in MEASURES:
        assert result[name] == statistics.fmean(getattr(each, name) for each in runs)


@pytest.mark.full
def test_a_process_of_its_own_prints_the_same_json_and_nothing_else(clnr, threads):
    ended = outside(*RUN, "--json", "--quiet")
    result = only_json(ended)
    assert ended.err == ""
    again = only_json(clnr(*RUN, "--json", "--rerun"))
    assert result["strict"] == again["strict"]
    assert {name: result[name] for name in MEASURES} == {name: again[name] for name in MEASURES}


def test_a_second_call_comes_from_the_record_and_again_runs_anew(clnr):
    first = clnr(*RUN, "--json")
    second = clnr(*RUN, "--json")
    assert second.out == first.out
    assert "1 of 1 from the run cache" in second.err
    assert len(RunCache().runs()) == 1
    third = only_json(clnr(*RUN, "--json", "--rerun"))
    assert len(RunCache().runs()) == 2
    assert third["strict"] == only_json(first)["strict"]
    assert third["train_seconds"] != only_json(first)["train_seconds"]


def test_more_seeds_run_only_those_that_are_new(clnr):
    first = only_json(clnr(*RUN, "--seeds", "2", "--json"))
    more = clnr(*RUN, "--seeds", "3", "--json")
    assert "2 of 3 from the run cache" in more.err
    assert only_json(more)["strict"]["runs"][:2] == first["strict"]["runs"]
    assert [each.seed for _, each in RunCache().runs()] == [0, 1, 2]


def test_another_recipe_is_another_run(clnr):
    clnr(*RUN)
    clnr(*RUN, "--set", "edge_drop=0.25")
    assert [each.recipe["edge_drop"] for _, each in RunCache().runs()] == [Recipe().edge_drop, 0.25]


def test_without_a_method_the_baselines_stand_beside_clnr(clnr):
    ended = clnr("run", "--device", "cpu", *SET)
    assert ended.code == 0
    names = [line.split()[0] for line in ended.out.splitlines() if line.split()[0] in METHODS]
    assert names == ["Raw", "Untrained", "CLNR"]
    assert [each.method for _, each in RunCache().runs()] == names


def test_names_may_be_typed_in_any_case(clnr):
    result = only_json(clnr("run", "clnr", "TOY", "--device", "cpu", *SET, "--json"))
    assert (result["method"], result["dataset"]) == ("CLNR", "toy")


def test_quiet_says_nothing_on_standard_error(clnr):
    ended = clnr(*RUN, "--quiet")
    assert ended.err == ""
    assert "CLNR" in ended.out


def test_a_method_that_trains_nothing_has_no_time_per_epoch(clnr):
    result = only_json(clnr("run", "Raw", "toy", "--set", "probe_steps=5", "--json"))
    assert (result["epoch_ms"], result["epochs"]) == (None, 0)


# -- bad input -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "clrn"], "unknown method 'clrn'; did you mean 'CLNR'?"),
        (["run", "clnr-sign", "toy"], "CLNR-SIGN was removed in 0.2.0: take CLNR-MLP"),
        (["compare", "toy", "--methods", "CLNR,CLNR-BN"], "CLNR-BN was removed in 0.2.0: take CLNR-hops with encoder=gcn-bn"),
        (["run", "CLNR", "toy", "--set", "components=3"], "unknown recipe key 'components'"),
        (["run", "CLNR", "coar"], "unknown data set 'coar'; did you mean 'cora'?"),
        (["run", "CLNR", "toy", "--set", "epoch=3"], "unknown recipe key 'epoch'; did you mean 'epochs'?"),
        (["run", "--set", "epochs"], "'epochs' is not of the form key=value"),
        (["run", "--set", "=3"], "unknown recipe key ''"),
        (["run", "--set", "epochs="], "epochs must be a whole number, not ''"),
        (["run", "--set", "epochs=many"], "epochs must be a whole number, not 'many'"),
        (["run", "--set", "epochs=2.5"], "epochs must be a whole number, not '2.5'"),
        (["run", "--set", "epochs=-1"], "epochs must be from 0"),
        (["run", "--set", "edge_drop=1.5"], "edge_drop must be from 0 to 1, not 1.5"),
        (["run", "--set", "edge_drop=nan"], "edge_drop must be from 0 to 1, not nan"),
        (["run", "--set", "temperature=0"], "temperature must be from 0.001"),
        (["run", "--set", "learning_rate=inf"], "learning_rate must be from"),
        (["run", "--set", "edge_drop_mode=pair"], "unknown value of edge_drop_mode 'pair'; did you mean 'pairs'?"),
        (["run", "--set", "momentum=0.5"], "CLNR has no use for momentum; see: clnr recipe CLNR"),
        (["run", "Raw", "--set", "epochs=3"], "Raw has no use for epochs; see: clnr recipe Raw"),
        (["run", "GCN", "--set", "probe_steps=3"], "GCN has no use for probe_steps; see: clnr recipe GCN"),
        (["run", "DGI", "cora", "--set", "temperature=1"], "DGI has no use for temperature; see: clnr recipe DGI"),
        (["run", "dCLNR", "toy", "--set", "moments=sampled"], "dCLNR: Whiten needs the rows of all nodes"),
        (
            ["run", "GAE", "toy", "--set", "moments=sampled"],
            "GAE has no use for moments: Reconstruct needs the rows of all nodes",
        ),
        (["run", "--set", "moments=some"], "unknown value of moments 'some'; known: all, sampled"),
        (["run", "--set", "max_neighbors=-1"], "max_neighbors must be from 0"),
        (["run", "--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["run", "--seeds", "-3"], "--seeds must be at least 1, not -3"),
        (["run", "--device", "banana"], "unknown device 'banana'"),
        (["run", "--device", "cudaa"], "unknown device 'cudaa'; did you mean 'cuda'?"),
        (["run", "CLNR", "cora", "--data-root", "no/such/folder"], "--data-root names no/such/folder, which is not a folder"),
        (["recipe", "clrn"], "unknown method 'clrn'"),
        (["recipe", "CLNR", "coar"], "unknown data set 'coar'"),
        (["ls", "method"], "unknown list 'method'; did you mean 'methods'?"),
        (["runs", "--method", "clrn"], "unknown method 'clrn'"),
        (["runs", "--dataset", "coar"], "unknown data set 'coar'"),
        (["runs", "--device", "banana"], "unknown device 'banana'"),
        (["runs", "--last", "0"], "--last must be at least 1, not 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_2(clnr, words, said):
    assert said in assert_refused(clnr(*words))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--seeds", "many"],
        ["run", "--bogus"],
        ["run", "a", "b", "c"],
        ["compare", "a", "b"],
        ["train"],
        ["ls"],
        ["runs", "--last", "x"],
    ],
    ids=" ".join,
)
def test_words_that_the_command_does_not_know_are_one_line_too(clnr, words):
    assert_refused(clnr(*words))


def test_bad_input_leaves_no_record(clnr, home):
    assert_refused(clnr("run", "--set", "epochs=many"))
    assert not home.exists()


def test_a_device_that_is_not_here(clnr, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "device 'cuda' is not here" in assert_refused(clnr("run", "--device", "cuda"))


def test_missing_data_without_a_network_says_what_where_and_whence(clnr, monkeypatch, tmp_path, home):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    urls = tuple(f"http://127.0.0.1:{port}/{url.rpartition('/')[2]}" for url in DATASETS["cora"].urls)
    monkeypatch.setitem(DATASETS, "cora", dataclasses.replace(DATASETS["cora"], urls=urls))
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)
    line = assert_refused(clnr("run", "CLNR", "cora", "--data-root", str(tmp_path)))
    for part in ("Planetoid/Cora/raw/ind.cora.x", tmp_path, home / "cache" / "data", urls[0]):
        assert str(part) in line


@pytest.mark.parametrize("content", [b"", b"altered"])
def test_altered_data_is_named(clnr, tmp_path, content):
    for file in DATASETS["cora"].layouts[0]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    line = assert_refused(clnr("run", "CLNR", "cora", "--data-root", str(tmp_path), "--json"))
    assert str(tmp_path / "Planetoid" / "Cora" / "raw") in line


def test_clnr_data_that_names_no_folder(clnr, monkeypatch):
    monkeypatch.setenv("CLNR_DATA", "/no/such/folder")
    assert "CLNR_DATA names /no/such/folder" in assert_refused(clnr("run", "CLNR", "cora"))


def test_a_record_that_cannot_be_written_is_noticed_before_any_work(clnr, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "file"))
    began = time.monotonic()
    assert str(tmp_path / "file") in assert_refused(clnr("run", "--set", "epochs=10000000"))
    assert time.monotonic() - began < 5


def test_a_record_that_is_no_database(clnr, home):
    (home / "state").mkdir(parents=True)
    (home / "state" / "runs.sqlite").write_text("something else")
    assert "not a database" in assert_refused(clnr("runs"))


def test_training_that_stops_is_one_line_and_not_recorded(clnr, monkeypatch):
    def stop(*arguments, **more):
        raise TrainingError("the loss became nan at epoch 1 of 2")

    monkeypatch.setattr(runner, "runs", stop)
    assert "the loss became nan" in assert_refused(clnr(*RUN, "--quiet"))
    assert RunCache().runs() == []


def test_a_supervised_method_is_told_as_wide_as_it_ran(clnr):
    told = only_json(clnr("run", "GCN", "toy", "--device", "cpu", "--set", "epochs=2", "--set", "hidden=4", "--json"))
    assert told["recipe"]["dimension"] == 6
    assert told["strict"] == told["paper"]


def test_a_process_of_its_own_refuses_alike():
    line = assert_refused(outside("run", "clrn", "cora"))
    assert line.startswith("clnr: unknown method 'clrn'; did you mean 'CLNR'?")


# -- env and help -----------------------------------------------------------------------------------------------------------


def test_env_says_what_a_bug_report_needs(clnr, home, monkeypatch):
    monkeypatch.setenv("CLNR_DATA", "/some/where")
    facts = only_json(clnr("env", "--json"))
    assert facts["torch"] == torch.__version__
    assert facts["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert facts["record"] == str(home / "state" / "runs.sqlite")
    assert facts["CLNR_DATA"] == "/some/where"
    lines = clnr("env").out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(facts)
    assert not home.exists()


@pytest.mark.parametrize("words", [[], ["run"], ["compare"], ["search"], ["ls"], ["recipe"], ["runs"], ["env"]], ids=" ".join)
def test_help_ends_well(clnr, words):
    ended = clnr(*words, "--help")
    assert ended.code == 0
    assert "Usage: " in ended.out
    assert ended.err == ""


@pytest.mark.parametrize("columns", [80, 200])
def test_help_cuts_no_name_of_an_option(columns):
    """In a process of its own, as the width is looked at once."""
    shown = subprocess.run(
        [sys.executable, "-m", "clnr", "embed", "--help"],
        env=os.environ | {"COLUMNS": str(columns)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout
    for option in ("--allow-missing-columns", "--no-nodes-header", "--ignore-memory-check", "--sampled-nodes"):
        assert option in shown
    assert max(map(len, shown.splitlines())) <= columns


def test_no_words_at_all_show_the_help(clnr):
    ended = clnr()
    assert "Usage: " in ended.out
    assert ended.err == ""


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_ctrl_c_ends_at_once_with_one_line_and_keeps_what_had_ended(home):
    words = ["run", "--device", "cpu", "--quiet", *SET, "--set", "epochs=10000000"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", "clnr", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
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
    assert "Traceback" not in err
    assert re.fullmatch(r"clnr: [^\n]{1,120}", err.strip()), err
    assert [each.method for _, each in run_cache.runs()] == ["Raw", "Untrained"]


# The program as a shell starts it; when it begins to import a module, it says so or is stopped.
IMPORTING = """
import importlib.abc, runpy, signal, sys

module, what = sys.argv[1:3]
del sys.argv[1:3]

class Moment(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            sys.meta_path.remove(self)
            if what == "stop":
                signal.raise_signal(signal.SIGINT)
            print("now", flush=True)

sys.meta_path.insert(0, Moment())
runpy.run_module("clnr", run_name="__main__", alter_sys=True)
"""


def importing(module: str, what: str) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", IMPORTING, module, what, *RUN]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.full
@pytest.mark.parametrize("module", ["clnr.cli", "numpy", "torch", "torch.nn"])
def test_ctrl_c_while_modules_are_imported_says_nothing(module):
    with importing(module, "stop") as process:
        assert process.communicate(timeout=600) == ("", "")
    assert process.returncode == 130


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="a signal cannot be sent to one process there")
def test_ctrl_c_from_outside_while_torch_is_imported_says_nothing():
    with importing("torch", "say") as process:
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=600) == ("", "")
    assert process.returncode == 130


# -- what new users ran into ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("run", "cora"), ("recipe", "cora")])
def test_a_data_set_in_the_methods_place_is_told_so(clnr, words):
    assert "'cora' is a data set; the method comes first: CLNR cora" in assert_refused(clnr(*words))


@pytest.mark.parametrize("words", [("run", ""), ("run", "CLNR", ""), ("recipe", ""), ("runs", "--method", "")])
def test_an_empty_word_is_not_an_absent_one(clnr, words):
    assert "unknown" in assert_refused(clnr(*words))


def test_what_could_not_be_recorded_is_shown_all_the_same(clnr, monkeypatch):
    def full(self, key, run, rerun):
        raise RunCacheError("the record is full")

    monkeypatch.setattr(RunCache, "add", full)
    ended = clnr(*RUN, "--quiet", "--json")
    assert json.loads(ended.out)["method"] == "CLNR"
    assert (ended.code, ended.err) == (2, "clnr: the record is full\n")
    ended = clnr(*RUN, "--quiet")
    assert "CLNR" in ended.out
    assert ended.code == 2


def test_a_recalled_run_names_the_machine_that_made_it(clnr, home):
    only_json(clnr(*RUN, "--json"))
    with closing(sqlite3.connect(home / "state" / "runs.sqlite")) as base, base:
        base.execute("UPDATE runs SET machine = 'a machine far away'")
    assert "toy, 1 seed, a machine far away" in clnr(*RUN).out


def test_a_changed_recipe_has_no_published_result_beside_it(clnr, real_data):
    words = ["run", "CLNR", "cora", "--data-root", str(real_data), "--device", "cpu", *SET]
    assert "published" not in clnr(*words).out


@pytest.mark.parametrize(
    ("column", "value"),
    [("recipe", None), ("recipe", "7"), ("versions", "{}"), ("strict", "abc"), ("method", 5), ("method", None), ("seed", "x")],
)
def test_a_row_that_was_tampered_with_is_one_line(clnr, home, column, value):
    only_json(clnr(*RUN, "--json"))
    with closing(sqlite3.connect(home / "state" / "runs.sqlite")) as base, base:
        base.execute(f"UPDATE runs SET {column} = ?", [value])
    assert "the run cache" in assert_refused(clnr("runs"))


@pytest.mark.parametrize("name", ["CLNR_DATA", "--data-root"])
def test_the_home_of_a_user_who_does_not_exist(clnr, monkeypatch, name):
    words = ["run", "CLNR", "cora"]
    if name == "CLNR_DATA":
        monkeypatch.setenv(name, "~nobody-of-that-name/x")
    else:
        words += [name, "~nobody-of-that-name/x"]
    assert "not a folder" in assert_refused(clnr(*words))


def test_no_home_at_all(clnr, monkeypatch):
    monkeypatch.delenv("CLNR_HOME")
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert "set CLNR_HOME" in assert_refused(clnr("runs"))


def test_version(clnr):
    assert clnr("--version") == (0, f"clnr {__version__}\n", "")


# -- bench -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def one_graph(monkeypatch):
    rows = [
        BenchmarkResult("toy", 2400, 10386, (1.0, 2.0, 3.5), (8.0, 9.0, 10.0), 3 << 20, 7 << 20),
        BenchmarkResult("generated", 714, 9974, (1.0, 2.0, 3.5), None, 3 << 20, None),
    ]
    asked = []
    monkeypatch.setattr("clnr.bench.growing", lambda engine, *numbers: asked.append((engine.name, *numbers)) or iter(rows))
    return asked


def test_bench_shows_both_contenders_and_their_ratio(clnr, one_graph):
    ended = clnr("bench", "--device", "cpu", "--seconds", "7")
    assert ended.code == 0
    assert one_graph == [("cpu", 7.0, 5)]
    toy, generated = (line.split() for line in ended.out.splitlines()[2:4])
    assert toy == ["toy", "2,400", "10,386", "9.00", "(8.00-10.00)", "2.00", "(1.00-3.50)", "4.5", "7", "3"]
    assert generated == ["generated", "714", "9,974", "-", "2.00", "(1.00-3.50)", "-", "-", "3"]


def test_bench_as_json(clnr, one_graph):
    told = only_json(clnr("bench", "--device", "cpu", "--json", "--quiet"))
    assert [row["ratio"] for row in told["graphs"]] == [4.5, None]
    assert (told["precision"], told["versions"]["clnr"]) == (choose("cpu").precision, __version__)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_bench_needs_some_time(clnr, seconds):
    assert "--seconds must be a number above 0" in assert_refused(clnr("bench", "--seconds", seconds))


def test_a_precision_and_threads_that_there_are(clnr, monkeypatch):
    told = only_json(clnr(*RUN, "--precision", "float32", "--threads", "2", "--json"))
    assert (told["precision"], told["threads"]) == ("float32", 2)
    monkeypatch.setenv("CLNR_PRECISION", "float32")
    monkeypatch.setattr("clnr.engine.choice.has_bfloat16", lambda: False)
    assert "this CPU cannot multiply bfloat16" in assert_refused(clnr(*RUN, "--precision", "bfloat16"))
    assert "threads must be at least 1, not 0" in assert_refused(clnr(*RUN, "--threads", "0"))
    assert "not 100,000 (--threads); this process may use " in assert_refused(clnr(*RUN, "--threads", "100000"))
    assert "did you mean 'float32'" in assert_refused(clnr(*RUN, "--precision", "float"))


def test_a_limit_on_memory_is_named_before_libraries_crash(clnr, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024_000_000, resource.RLIM_INFINITY))
    said = assert_refused(clnr(*RUN))
    assert "the memory of this process is limited to 1.0 GB (ulimit -v), and a small graph takes 4.0 GB" in said
    assert clnr("run", "--help").code == clnr("--version").code == 0


@pytest.mark.parametrize("error", [OSError("cannot load libllvmlite.so"), ImportError("failed to map segment"), MemoryError()])
def test_what_fails_under_a_limit_on_memory_is_told_by_it(clnr, monkeypatch, error):
    def fails(*_, **__):
        raise error

    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (5_000_000_000, resource.RLIM_INFINITY))
    monkeypatch.setattr("clnr.engine.choose", fails)
    assert "is limited to 5.0 GB (ulimit -v)" in assert_refused(clnr(*RUN))


def test_a_bench_that_is_stopped_shows_what_it_has(clnr, monkeypatch):
    def growing(*numbers):
        yield BenchmarkResult("toy", 2400, 10386, (1.0, 2.0, 3.5), (8.0, 9.0, 10.0), 3 << 20, 7 << 20)
        raise KeyboardInterrupt

    monkeypatch.setattr("clnr.bench.growing", growing)
    ended = clnr("bench", "--device", "cpu", "--json", "--quiet")
    assert (ended.code, ended.err) == (130, "clnr: stopped after 1 graph\n")
    assert len(json.loads(ended.out)["graphs"]) == 1

"""Words of before: each still works, and says what it is called now."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from clnr import load
from clnr.cli.app import OLD_COMMANDS, OLD_OPTIONS, app
from clnr.datasets.catalog import DATASETS, OLD_NAMES
from clnr.experiments.run_cache import RunCache
from clnr.methods.recipe import recipe_keys
from clnr.support.deprecation import RenamedWarning
from tests.cli.test_cli import RUN

OLD_CACHE = Path(__file__).parents[1] / "experiments" / "old" / "runs.sqlite"


def warned(ended, kind, old, new):
    said = f"clnr: warning: {kind} '{old}' is now '{new}'; the old name works in this version only\n"
    return ended.err.count(said) == 1


def test_every_old_word_leads_to_one_of_today():
    from typer.main import get_command

    commands = get_command(app).commands
    options = {option for command in commands.values() for each in command.params for option in each.opts}
    assert set(OLD_COMMANDS.values()) <= set(commands)
    assert set(OLD_OPTIONS.values()) <= options
    assert not set(OLD_COMMANDS) & set(commands)
    assert not set(OLD_OPTIONS) & options
    assert set(OLD_NAMES.values()) <= set(DATASETS)


def test_an_old_option_works_and_warns(clnr):
    ended = clnr(*RUN, "--again", "--json")
    assert ended.code == 0
    assert warned(ended, "option", "--again", "--rerun")
    assert json.loads(ended.out)["method"] == "CLNR"


def test_an_old_option_with_a_value_works_and_warns(clnr):
    search = ["search", "CLNR", "toy", "--device", "cpu", "--seeds", "1", *RUN[5:]]
    ended = clnr(*search, "--over=temperature=0.5,0.6", "--json")
    assert ended.code == 0
    assert warned(ended, "option", "--over", "--grid")
    assert [trial["changes"]["temperature"] for trial in json.loads(ended.out)] != []


def test_an_old_command_works_and_warns(clnr):
    ended, now = clnr("show", "CLNR", "cora", "--json"), clnr("recipe", "CLNR", "cora", "--json")
    assert (ended.code, ended.out) == (0, now.out)
    assert warned(ended, "command", "show", "recipe")
    assert now.err == ""


def test_an_old_name_of_a_data_set_works_and_warns(clnr):
    ended = clnr("recipe", "CLNR", "embedded")
    assert ended.code == 0
    assert warned(ended, "data set", "embedded", "toy")
    with pytest.warns(RenamedWarning, match="'embedded' is now 'toy'"):
        assert load("embedded").name == "toy"


def test_an_old_key_of_a_recipe_works_and_warns(clnr):
    ended = clnr(*RUN, "--set", "drop=pairs", "--json")
    assert (ended.code, json.loads(ended.out)["recipe"]["edge_drop_mode"]) == (0, "pairs")
    assert warned(ended, "recipe key", "drop", "edge_drop_mode")


def test_an_old_key_in_a_grid_works_and_warns_once(clnr):
    search = ["search", "CLNR", "toy", "--device", "cpu", "--seeds", "1", *RUN[5:]]
    ended = clnr(*search, "--grid", "mask=columns,elements", "--json")
    assert {trial["changes"]["feature_mask_mode"] for trial in json.loads(ended.out)} == {"columns", "elements"}
    assert warned(ended, "recipe key", "mask", "feature_mask_mode")


def test_todays_words_do_not_warn(clnr):
    ended = clnr(*RUN, "--rerun", "--json")
    assert "warning" not in ended.err


def test_a_run_cache_of_before_opens_under_todays_names(tmp_path):
    path = shutil.copy(OLD_CACHE, tmp_path)
    cache = RunCache(Path(path))
    runs = [run for _, run in cache.runs()]
    assert [(run.method, run.dataset, run.seed, run.parallel_seeds) for run in runs] == [
        ("CLNR", "toy", 0, 1),
        ("CLNR", "toy", 1, 1),
        ("MVGRL", "toy", 0, 1),
    ]
    assert [run.method for _, run in cache.runs(dataset="TOY", last=1)] == ["MVGRL"]
    cache.prepare()
    assert len(cache.runs()) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", run.versions["code"]) for run in runs)
    # Later keys are missing, and none has an old name.
    assert all(set(run.recipe) < recipe_keys().keys() for run in runs)


def test_runs_of_before_are_listed_without_a_warning(clnr):
    RunCache().path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(OLD_CACHE, RunCache().path)
    ended = clnr("runs")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("toy") == 3
    assert "teleport" not in ended.out

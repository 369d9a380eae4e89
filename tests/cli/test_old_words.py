"""Words of before: each still works, and says what it is called now."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from clnr.cli.app import OLD_COMMANDS, OLD_OPTIONS, app
from clnr.datasets.catalog import DATASETS, OLD_NAMES
from clnr.experiments.run_cache import RunCache
from clnr.methods.recipe import recipe_keys
from tests.cli.test_cli import RUN
from tests.command_line import assert_refused

OLD_CACHE = Path(__file__).parents[1] / "experiments" / "old" / "runs.sqlite"


def test_every_old_word_leads_to_one_of_today():
    from typer.main import get_command

    commands = get_command(app).commands
    options = {option for command in commands.values() for each in command.params for option in each.opts}
    assert set(OLD_COMMANDS.values()) <= set(commands)
    assert set(OLD_OPTIONS.values()) <= options
    assert not set(OLD_COMMANDS) & set(commands)
    assert not set(OLD_OPTIONS) & options
    assert set(OLD_NAMES.values()) <= set(DATASETS)


SEARCH = ["search", "CLNR", "toy", "--device", "cpu", "--seeds", "1", *RUN[5:]]


@pytest.mark.parametrize(
    ("words", "today", "kind", "old", "new"),
    [
        (["show", "CLNR", "cora"], ["recipe", "CLNR", "cora"], "command", "show", "recipe"),
        (["recipe", "CLNR", "embedded"], ["recipe", "CLNR", "toy"], "data set", "embedded", "toy"),
        ([*RUN, "--again"], [*RUN], "option", "--again", "--rerun"),
        ([*RUN, "--set", "drop=pairs"], [*RUN, "--set", "edge_drop_mode=pairs"], "recipe key", "drop", "edge_drop_mode"),
        ([*SEARCH, "--over=temperature=0.5,0.6"], [], "option", "--over", "--grid"),
        ([*SEARCH, "--grid", "mask=columns,elements"], [], "recipe key", "mask", "feature_mask_mode"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_old_word_is_todays_with_one_warning(clnr, words, today, kind, old, new):
    ended = clnr(*words, "--json")
    assert ended.code == 0
    assert ended.err.count(f"clnr: warning: {kind} '{old}' is now '{new}'; the old name works in this version only\n") == 1
    if today:
        now = clnr(*today, "--json")
        assert (now.out, "warning" in now.err) == (ended.out, False)


def test_memory_without_a_graph_folder_is_that_of_duckdb(clnr, tmp_path):
    """``--memory`` is the limit of the whole command; it was also that of reading tables."""
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(20)))
    plan = ["embed", "--edges", str(tmp_path / "e.csv"), "--dry-run", "--device", "cpu"]
    before, now = clnr(*plan, "--memory", "1 GB"), clnr(*plan, "--duckdb-memory", "1 GB")
    warned = "clnr: warning: option '--memory' is now '--duckdb-memory'; the old name works in this version only\n"
    assert (before.code, before.err.count(warned)) == (0, 1)
    assert (now.out, "warning" in now.err) == (before.out, False)
    assert "(--duckdb-memory) must be an amount such as '4 GB'" in assert_refused(clnr(*plan, "--duckdb-memory", "much"))
    assert "leave it out" in assert_refused(clnr(*plan, "--memory", "1 GB", "--duckdb-memory", "1 GB"))
    graph = ["embed", "--graph", str(tmp_path), "--duckdb-memory", "1 GB", "--out", str(tmp_path / "out")]
    assert "leave out --duckdb-memory" in assert_refused(clnr(*graph))


def test_a_run_cache_of_before_opens_under_todays_names(clnr, tmp_path):
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
    RunCache().path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(OLD_CACHE, RunCache().path)
    ended = clnr("runs")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("toy") == 3

"""What each command imports: those that only show something do without torch, and answer at once."""

from __future__ import annotations

import pytest

from clnr.cli.app import COMMANDS
from tests.command_line import run_script

HEAVY = (
    *("torch", "numpy", "scipy", "sklearn", "numba", "duckdb", "pyarrow", "matplotlib", "torch_geometric", "safetensors"),
    *("optuna", "usearch", "networkx", "pandas", "triton"),
)
SHOWS = ("ls methods", "ls datasets", "ls methods --json", "recipe", "recipe MVGRL cora", "runs", "runs --device cpu")
LIGHT = ("", "--help", "--version", *SHOWS, *(f"{command} --help" for command in COMMANDS))
MISTAKES = ("run clrn", "run CLNR coar", "run --set epoch=3", "run --seeds 0", "compare toy --methods CLNR", "search CLRN")
MISTAKES += ("recipe CLNR coar", "ls method", "runs --method clrn", "bogus", "run --bogus", "embed", "embed --bogus")

SCRIPT = f"""
import sys
from clnr.__main__ import main
for command in sys.argv[1:]:
    sys.argv = ["clnr", *command.split()]
    before = set(sys.modules)
    try:
        main()
    except SystemExit as end:
        print("code", end.code or 0, file=sys.stderr)
    print("imported", *(name for name in {HEAVY} if name in sys.modules and name not in before), file=sys.stderr)
"""


def imported(commands, home, code=0) -> list[set[str]]:
    """The heavy packages that each of some commands imports, one after the other in one process; they end with ``code``."""
    ended = run_script(SCRIPT, *commands, CLNR_HOME=str(home))
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.stderr.count(f"code {code}\n") == len(commands)
    return [set(line.split()[1:]) for line in ended.stderr.splitlines() if line.startswith("imported")]


def test_every_command_is_listed():
    from typer.main import get_command

    from clnr.cli import app

    assert sorted(COMMANDS) == sorted(get_command(app).commands)
    assert get_command(app).list_commands(None) == list(COMMANDS)


def test_what_only_shows_something_imports_nothing_heavy(tmp_path):
    assert {words: heavy for words, heavy in zip(LIGHT, imported(LIGHT, tmp_path), strict=True) if heavy} == {}


def test_a_mistake_is_told_without_importing_anything_heavy(tmp_path):
    assert {words: heavy for words, heavy in zip(MISTAKES, imported(MISTAKES, tmp_path, 2), strict=True) if heavy} == {}


@pytest.mark.full
def test_what_computes_imports_what_it_needs(tmp_path):
    env, run = imported(["env", "run CLNR toy --device cpu --set epochs=1 --set probe_steps=1"], tmp_path)
    assert {"torch", "numpy"} <= env
    assert {"torch", "numpy", "scipy"} <= env | run
    heavy = {"sklearn", "duckdb", "pyarrow", "matplotlib", "torch_geometric", "optuna", "usearch", "networkx", "pandas"}
    assert not (env | run) & heavy


WATCH = """
import os, sys, threading

def start(thread):
    print("torch" in sys.modules, flush=True)
    os._exit(0)

threading.Thread.start = start
{}
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "begin",
    [
        "from clnr.__main__ import main; sys.argv = 'clnr embed --edges e.csv --out o'.split(); main()",
        "from clnr.embedding.fit_worker import main; main('.')",
    ],
)
def test_a_worker_watches_for_the_end_of_its_launcher_before_it_imports_torch(tmp_path, begin):
    told = {"RANK": "0", "WORLD_SIZE": "2", "CLNR_RENDEZVOUS": (tmp_path / "meeting").as_uri()}
    ended = run_script(WATCH.format(begin), cwd=tmp_path, **told)
    assert (ended.stdout, ended.stderr) == ("False\n", "")

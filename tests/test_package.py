"""What the package promises to others: its public names, its silence, the versions that it runs with."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import clnr

SOURCE = Path(clnr.__file__).parent
ROOT = Path(__file__).parents[1]


def test_public_names_are_pinned_sorted_and_there():
    names = "CLNR METHODS ClnrError Graph Method NodeEmbedder Recipe Run Split Summary __version__"
    assert " ".join(clnr.__all__) == f"{names} ingest load read_tables recipe_for run runs"
    assert all(hasattr(clnr, name) for name in clnr.__all__)
    assert (SOURCE / "py.typed").is_file()


def test_no_code_branches_on_a_methods_name():
    """Nor looks one up: no comparison, pattern or subscript has a method's name in it."""
    for file in SOURCE.rglob("*.py"):
        text = file.read_text()
        # Parsing all takes seconds: only files that have a method's name in them.
        for node in ast.walk(ast.parse(text if any(f'"{name}"' in text for name in clnr.METHODS) else "")):
            if isinstance(node, ast.Compare | ast.match_case | ast.Subscript):
                words = {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
                assert not words & set(clnr.METHODS), f"{file.name}: {ast.unparse(node)}"


def printed(script: str, **environment: str) -> str:
    """What a script prints in a process of its own, where a warning is an error."""
    words = [sys.executable, "-W", "error", "-c", f"import os, sys, clnr; {script}"]
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_importing_says_nothing_and_loads_nothing_heavy():
    """Methods, their parts and recipes can be looked at without what computes."""
    heavy = ("torch", "numpy", "scipy", "torch_geometric", "matplotlib", "duckdb", "sklearn", "numba", "typer", "rich")
    names = "CLNR, METHODS, ClnrError, Method, Recipe"
    look = "Recipe(epochs=3).but(hidden=8), [method.keys for method in METHODS.values()], CLNR.but('x', 'y').architecture()"
    loaded = f"[name for name in {(*heavy, 'clnr.engine', 'clnr.graph')} if name in sys.modules]"
    assert printed(f"import clnr.__main__; from clnr import {names}; {look}; print({loaded})") == "[]"
    light = ", ".join(name for name in clnr.__all__ if name != "NodeEmbedder")
    loaded = f"[name for name in {('torch_geometric', 'matplotlib', 'duckdb', 'sklearn', 'numba')} if name in sys.modules]"
    assert printed(f"from clnr import {light}; print({loaded})") == "[]"


@pytest.mark.parametrize(("given", "expected"), [({}, "1000 1"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None None")])
def test_torchs_threads_soon_fall_asleep_unless_the_user_says_how_they_wait(monkeypatch, given, expected):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)
    assert printed("print(*map(os.environ.get, ('GOMP_SPINCOUNT', 'KMP_BLOCKTIME')))", **given) == expected


def test_the_lowest_versions_are_those_that_the_package_names():
    """So that `make test-lowest` tests what pyproject.toml promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = dict(each.split(">=") for each in (*project["dependencies"], *extras["pyg"]))
    named = needed | dict(each.split(";")[0].split(">=") for each in extras["dev"] if ">=" in each)
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert needed.keys() <= pinned.keys() <= named.keys()
    assert "clnr[docs,pyg]" in extras["dev"]
    for name, version in pinned.items():
        assert (version + ".0").startswith(named[name] + "."), name


@pytest.mark.full
def test_a_public_name_is_the_same_whatever_was_imported_first():
    script = """
import clnr.experiments.run, clnr.datasets, clnr.cli
from clnr import run, load
assert clnr.run is run and run.__module__ == "clnr.experiments.run" and callable(run), run
assert clnr.errors.ClnrError is clnr.ClnrError
assert sorted(dir(clnr)) == sorted(clnr.__all__)
try:
    clnr.banana
except AttributeError as error:
    print(error)
"""
    assert printed(f"exec({script!r})") == "module 'clnr' has no attribute 'banana'"

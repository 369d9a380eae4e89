"""What the package promises to others: its public names, its silence, the versions that it runs with."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import clnr

SOURCE = Path(clnr.__file__).parent
ROOT = Path(__file__).parents[1]


def test_public_names_are_pinned_sorted_and_there():
    assert clnr.__all__ == [
        *(
            "CLNR",
            "METHODS",
            "ClnrError",
            "Graph",
            "Method",
            "NodeEmbedder",
            "Recipe",
            "Run",
            "Split",
            "Summary",
            "__version__",
        ),
        *("embed", "ingest", "load", "read_tables", "recipe_for", "run", "runs"),
    ]
    assert all(hasattr(clnr, name) for name in clnr.__all__)
    assert (SOURCE / "py.typed").is_file()


def test_no_code_branches_on_a_methods_name():
    """Nor looks one up: no comparison, pattern or subscript has a method's name in it."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare | ast.match_case | ast.Subscript):
                words = {leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
                assert not words & set(clnr.METHODS), f"{file.name}: {ast.unparse(node)}"


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)


def test_importing_says_nothing_and_loads_nothing_heavy():
    heavy = ("torch", "numpy", "torch_geometric", "matplotlib", "duckdb", "sklearn", "numba", "typer", "rich")
    done = python(f"import sys, clnr, clnr.__main__; print([name for name in {heavy} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_declarations_need_no_torch():
    """Methods, their parts and recipes can be looked at without what computes."""
    names = "CLNR, METHODS, ClnrError, Method, Recipe"
    look = "Recipe(epochs=3).but(hidden=8), [method.keys for method in METHODS.values()], CLNR.but('x', 'y').architecture()"
    heavy = ("torch", "numpy", "scipy", "clnr.engine", "clnr.graph")
    done = python(f"import sys; from clnr import {names}; {look}; print([name for name in {heavy} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_lowest_versions_are_those_that_the_package_names():
    """So that `make test-lowest` tests what pyproject.toml promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    optional = [each for name in ("approximate", "figures", "pyg", "tune") for each in extras[name]]
    needed = dict(each.split(">=") for each in (*project["dependencies"], *optional))
    named = needed | dict(each.split(";")[0].split(">=") for each in extras["dev"] if ">=" in each)
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert needed.keys() <= pinned.keys() <= named.keys()
    assert extras["all"] == ["clnr[approximate,figures,pyg,tune]"]
    assert "clnr[all,docs]" in extras["dev"]
    for name, version in pinned.items():
        assert (version + ".0").startswith(named[name] + "."), name


@pytest.mark.full
def test_public_names_load_no_heavy_optional_package_but_where_it_is_needed():
    heavy = ("torch_geometric", "matplotlib", "duckdb", "sklearn", "numba")
    light = [name for name in clnr.__all__ if name != "NodeEmbedder"]
    done = python(f"import sys; from clnr import {', '.join(light)}; print([name for name in {heavy} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr.replace(chr(10), "")) == ("[]", "")


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
    done = python(script)
    assert (done.stdout, done.stderr) == ("module 'clnr' has no attribute 'banana'\n", "")

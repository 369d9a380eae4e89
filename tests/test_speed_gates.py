"""Speed, by counts in place of seconds: modules that are imported, passes over the edges, factorisations, processes.

A count that rises is a program that became slower on every machine. Where one falls, lower it here.
"""

from __future__ import annotations

import subprocess
from collections import Counter

import numpy as np
import pytest
import torch

from clnr import NodeEmbedder
from clnr.engine.cpu.cpu_engine import CSRArrays
from tests.command_line import run_script
from tests.conftest import tiny

_HEAVY = ("torch", "duckdb", "scipy", "sklearn", "numba", "pyarrow", "matplotlib", "pandas")
# By command: the most modules (a tenth more than today, since Python's own differ by version), the most of the package's own,
# and the heavy packages that it may import.
_MODULES: dict[str, tuple[int, int, set[str]]] = {
    "--help": (310, 30, set()),
    "embed --help": (380, 30, set()),
    "embed --edges e.csv --set hold_out=x": (440, 82, set()),
    "embed --edges e.csv --out o --set method=CLRN": (440, 82, set()),
    "similar nowhere 1": (390, 38, set()),
}
_COUNT_MODULES = f"""
import sys
from clnr.__main__ import main
try:
    main()
except SystemExit:
    pass
own = sum(name.startswith("clnr") for name in sys.modules)
print("modules", len(sys.modules), own, *(name for name in {_HEAVY} if name in sys.modules), file=sys.stderr)
"""


def modules(words: str, folder) -> tuple[int, int, set[str]]:
    """How many modules a command imports, how many of them are ours, and which are heavy."""
    ended = run_script(_COUNT_MODULES, *words.split(), cwd=folder)
    _, count, own, *heavy = ended.stderr.splitlines()[-1].split()
    return int(count), int(own), set(heavy)


@pytest.mark.parametrize("words", _MODULES)
def test_modules_that_a_command_imports(words, tmp_path):
    count, own, heavy = modules(words, tmp_path)
    most, most_own, allowed = _MODULES[words]
    assert heavy <= allowed
    assert count <= most
    assert own <= most_own


@pytest.fixture
def counts(monkeypatch) -> Counter[str]:
    """How often each of the expensive operations was called."""
    called: Counter[str] = Counter()

    def count(owner, name, what):
        call = getattr(owner, name)

        def counted(*args, **more):
            called[what] += 1
            return call(*args, **more)

        monkeypatch.setattr(owner, name, counted)

    count(CSRArrays, "multiply", "passes over the edges")
    for owner in (torch.linalg, np.linalg):
        for name in ("eigh", "eigvalsh", "svd", "qr", "cholesky"):
            count(owner, name, "factorisations")
    return called


@pytest.mark.parametrize(
    ("words", "passes", "factorisations"),
    [
        # Two views, two layers, there and back: 8 passes in an epoch. A probe takes two factorisations.
        ("--set method=CLNR --set epochs=2 --no-baselines", 56, 5),
        ("--set method=CLNR --set epochs=4 --no-baselines", 72, 5),
        # Column y holds labels, and of ten read-outs it is told which they would choose: small factorisations.
        ("--set epochs=2", 108, 163),
        ("--set epochs=2 --set mix=all", 103, 48),
        ("--effort quick", 90, 48),
    ],
)
def test_passes_over_the_edges_and_factorisations(tmp_path, monkeypatch, clnr, counts, words, passes, factorisations):
    monkeypatch.chdir(tmp_path)
    source, target, _ = tiny().edges()
    rows = "".join(f"n{a},n{b}\n" for a, b in zip(source, target, strict=True))
    (tmp_path / "edges.csv").write_text("source,target\n" + rows)
    (tmp_path / "nodes.csv").write_text("id,x,y\n" + "".join(f"n{i},{i * i % 17},{i % 5}\n" for i in range(40)))
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv"]
    ended = clnr("embed", *tables, "--label", "y", "--out", "out", "--set", "device=cpu", *words.split())
    assert ended.code == 0, ended.err
    assert counts["passes over the edges"] <= passes
    assert counts["factorisations"] <= factorisations


def test_one_worker_is_this_process(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    recipe = {"epochs": 1, "hidden": 8, "dimension": 8, "sampled_nodes": 20, "moments": "sampled"}
    NodeEmbedder("CLNR", recipe=recipe, device="cpu", precision="float32").fit(tiny())

from __future__ import annotations

import shutil
from pathlib import Path

import networkx as nx
import pytest

from clnr.support.machine import code_digest
from clnr.support.machine.code_digest import NUMERICS, code_version
from tests.test_layers import arrows

SOURCE = Path(code_digest.__file__).parents[2]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package, whose version is asked for, and a cache folder of its own."""
    copy = tmp_path / "clnr"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest.resources, "files", lambda name: copy)
    return copy


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_the_version_is_of_the_bytes_of_what_computes(package):
    first = code_version()
    (package / "cli" / "app.py").write_text("1")
    assert (code_version.__wrapped__(), len(first)) == (first, 16)
    change(package / "rng.py", "_ROUNDS = 6", "_ROUNDS = 7")
    assert code_version.__wrapped__() != first
    change(package / "rng.py", "_ROUNDS = 7", "_ROUNDS = 6")
    assert code_version.__wrapped__() == first


def entry(module: str) -> str:
    """The package or the module that ``NUMERICS`` would name."""
    first, *rest = module.split(".")[1:]
    return "/".join([first, *rest]) + ".py" if first == "experiments" or not (SOURCE / first).is_dir() else first


def test_the_version_covers_whatever_a_run_imports():
    """All packages that a run reaches, but for those that hold no arithmetic of a result."""
    inner = [arrow for arrow in arrows() if "clnr" not in (arrow.source, arrow.target)]
    apart = ("errors", "experiments", "support", "version")
    graph = nx.DiGraph((entry(each.source), entry(each.target)) for each in inner if each.target.split(".")[1] not in apart)
    starts = {"experiments/run.py", "experiments/learn.py"}
    reached = starts.union(*(nx.descendants(graph, start) for start in starts))
    assert {each for each in NUMERICS if not each.startswith("embedding/")} == reached
    assert all((SOURCE / each).exists() for each in NUMERICS)

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from clnr import machine
from clnr.errors import TrainingError


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can reset a peak")
def test_the_meter_sees_a_peak_and_forgets_an_earlier_one():
    np.ones(50_000_000)
    meter = machine.MemoryMeter(torch.device("cpu"))
    before = meter.peak()
    block = np.ones(25_000_000)
    del block
    assert 190e6 < meter.peak() - before < 300e6
    assert machine.MemoryMeter(torch.device("cpu")).peak() < before + 100e6


def test_code_version_is_of_the_code(tmp_path, monkeypatch):
    first = machine.code_version()
    assert len(first) == 16
    monkeypatch.setattr(machine, "_NUMERICS", machine._NUMERICS[1:])
    machine.code_version.cache_clear()
    try:
        assert machine.code_version() != first
    finally:
        monkeypatch.undo()
        machine.code_version.cache_clear()
    assert machine.code_version() == first


def test_code_version_covers_whatever_a_run_imports():
    """All modules that run.py reaches, but for those that hold no arithmetic of a result."""
    source = Path(machine.__file__).parent
    apart = {"arguments", "errors", "machine", "places", "results", "version"}
    reached, left = set(), ["run"]
    while left:
        name = left.pop()
        if name in reached or name in apart:
            continue
        reached.add(name)
        path = source / name
        for file in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module == "clnr":
                    left += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("clnr."):
                    left.append(node.module.split(".")[1])
    assert reached == {entry.removesuffix(".py") for entry in machine._NUMERICS}
    assert all((source / entry).exists() for entry in machine._NUMERICS)


def test_versions_name_what_computes():
    assert {"clnr", "code", "python", "torch", "numpy", "scipy"} <= set(machine.versions())


def test_out_of_memory_becomes_advice():
    with pytest.raises(TrainingError, match=r"out of memory.*sampled_nodes"), machine.enough_memory():
        torch.zeros(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="something else"), machine.enough_memory():
        raise RuntimeError("something else")

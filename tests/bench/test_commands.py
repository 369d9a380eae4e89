from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_has_help(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} ")
    assert f"python -m benchmarks.{name} " in (FOLDER / f"{name}.py").read_text()


def test_an_old_name_of_a_synthetic_graph_works_and_warns(monkeypatch):
    from benchmarks import epoch

    from clnr.support.deprecation import RenamedWarning

    monkeypatch.setattr(epoch, "shaped", lambda *sizes: sizes)
    with pytest.warns(RenamedWarning, match="'arxiv-shape' is now 'arxiv-sized'"):
        graph, recipe = epoch.subject("arxiv-shape")
    assert graph == (169_343, 1_157_799, 128)
    assert recipe.layers == 3

"""Without an optional package, what needs it says how to install it, and all else works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from clnr import ClnrError
from clnr.bench import measure
from clnr.embedding.reporting.map_layouts import check_layout
from clnr.embedding.store.export import parse_formats
from clnr.engine import cpu_engine
from clnr.methods.recipe import Recipe
from clnr.support.optional import check_installed, import_optional
from tests.cli.test_cli import entry_point
from tests.conftest import tiny


@pytest.fixture
def without(monkeypatch):
    """Hide packages, and their modules that are loaded already."""

    def hide(*packages):
        for name in list(sys.modules):
            if name.partition(".")[0] in packages:
                monkeypatch.setitem(sys.modules, name, None)
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_a_module_that_is_there_is_imported():
    assert import_optional("json.decoder", "a test").JSONDecoder


def test_a_package_without_an_extra_is_installed_by_its_own_name():
    with pytest.raises(ClnrError, match=r"^a test needs no-such-package; install it with: pip install no-such-package$"):
        import_optional("no_such_package.part", "a test")


def test_whether_it_is_there_is_known_without_importing_it(without):
    check_installed("json", "a test")
    without("umap")
    with pytest.raises(ClnrError, match=r"^the layout umap needs umap; install it with: pip install 'clnr\[maps\]'$"):
        check_layout("umap")


@pytest.mark.parametrize(
    "call",
    [
        lambda: tiny().to_pyg(),
        lambda: parse_formats(["csv", "pyg"]),
        lambda: measure(tiny(), Recipe(hidden=8, dimension=6), cpu_engine(), epochs=1, turns=1),
    ],
    ids=["to_pyg", "embed --format pyg", "bench"],
)
def test_without_pyg_it_says_how_to_get_it(without, call):
    without("torch_geometric")
    with pytest.raises(ClnrError, match=r"needs torch-geometric; install it with: pip install 'clnr\[pyg\]'$"):
        call()


@pytest.mark.parametrize("words", [("figure", "1"), ("paper",)])
def test_without_matplotlib_figures_say_so_before_any_run(without, monkeypatch, capsys, tmp_path, words):
    without("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "home"))
    ended = entry_point(monkeypatch, capsys)(*words, "--quick", "--out", "here")
    assert ended.code == 2
    assert ended.err == "clnr: drawing figures needs matplotlib; install it with: pip install 'clnr[figures]'\n"
    assert not list(tmp_path.rglob("*.sqlite"))


def test_a_plan_of_figures_needs_no_matplotlib(without, monkeypatch, capsys, tmp_path):
    without("matplotlib")
    monkeypatch.setenv("CLNR_HOME", str(tmp_path))
    ended = entry_point(monkeypatch, capsys)("figure", "2", "--quick", "--datasets", "toy", "--dry-run", "--out", str(tmp_path))
    assert ended.code == 0, ended.err


@pytest.mark.full
def test_the_first_command_needs_no_optional_package(tmp_path):
    """What ``make run`` does, with every optional package hidden."""
    script = """
import sys
for name in ("matplotlib", "torch_geometric", "usearch", "optuna", "networkx", "pandas"):
    sys.modules[name] = None
from clnr.__main__ import main
sys.argv = ["clnr", "run", "CLNR", "toy", "--set", "epochs=2", "--device", "cpu"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "CLNR_HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert "CLNR" in done.stdout

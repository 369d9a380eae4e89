from __future__ import annotations

import shutil
from pathlib import Path

import networkx as nx
import pytest

from clnr.support.machine import code_digest
from clnr.support.machine.code_digest import NUMERICS, code_version, module_digest
from tests.test_layers import arrows

SOURCE = Path(code_digest.__file__).parents[2]

MODULE = '''"""What it holds."""

from clnr.graph import Graph


class Parts:
    """Some."""

    def count(self, graph: Graph) -> int:
        """How many."""
        return graph.num_nodes * 2  # Twice.
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("What it holds.", "What else it holds.", True),
        ("How many.", "How many there are.", True),
        ("  # Twice.", "", True),
        ("    def", "\n    # Counts.\n    def", True),
        ("from clnr.graph import", "from clnr.graph.graph import", True),
        ("\n", "\r\n", True),
        ("* 2", "* 3", False),
        ("* 2", "+ 2", False),
        ("import Graph", "import Split", False),
        ("from clnr.graph", "from other.graph", False),
        ("def count(self, graph: Graph)", "def count(self, graph: Graph, twice: bool = True)", False),
        ('''        """How many."""\n''', '''        text = """How many."""\n''', False),
    ],
)
def test_what_computes_counts_and_places_comments_and_docstrings_do_not(old, new, same):
    assert old in MODULE
    assert (module_digest(MODULE.replace(old, new)) == module_digest(MODULE)) is same


def test_a_digest_is_the_same_in_every_version_of_python():
    assert module_digest(MODULE) == "d9b1a90c2f4b140265fc2b1aabd0fe28615540853a7cbe100637399b181b8820"


@pytest.mark.full
def test_the_version_is_of_the_code_wherever_it_stands(tmp_path, monkeypatch):
    first, package = code_version(), tmp_path / "clnr"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest.resources, "files", lambda name: package)
    (package / "nn" / "layers.py").rename(package / "nn" / "strata.py")
    (package / "cli" / "app.py").write_text("1")
    assert (code_version.__wrapped__(), len(first)) == (first, 16)
    (package / "rng.py").write_text((package / "rng.py").read_text().replace("_ROUNDS = 6", "_ROUNDS = 7"))
    assert code_version.__wrapped__() != first


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
    assert starts.union(*(nx.descendants(graph, start) for start in starts)) == set(NUMERICS)

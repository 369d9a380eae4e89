from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from clnr.support.machine import code_digest
from clnr.support.machine.code_digest import NUMERICS, code_version, module_digest

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
    ("old", "new"),
    [
        ("What it holds.", "What else it holds."),
        ("How many.", "How many there are."),
        ("  # Twice.", ""),
        ("    def", "\n    # Counts.\n    def"),
        ("from clnr.graph import", "from clnr.graph.graph import"),
        ("\n", "\r\n"),
    ],
)
def test_places_comments_and_docstrings_do_not_count(old, new):
    assert old in MODULE
    assert module_digest(MODULE.replace(old, new)) == module_digest(MODULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 2", "* 3"),
        ("* 2", "+ 2"),
        ("import Graph", "import Split"),
        ("from clnr.graph", "from other.graph"),
        ("def count(self, graph: Graph)", "def count(self, graph: Graph, twice: bool = True)"),
        ('''        """How many."""\n''', '''        text = """How many."""\n'''),
    ],
)
def test_what_computes_counts(old, new):
    assert old in MODULE
    assert module_digest(MODULE.replace(old, new)) != module_digest(MODULE)


def test_a_digest_is_the_same_in_every_version_of_python():
    assert module_digest(MODULE) == "d9b1a90c2f4b140265fc2b1aabd0fe28615540853a7cbe100637399b181b8820"


def copied(folder, monkeypatch):
    """A copy of the package, digested in place of it."""
    shutil.copytree(SOURCE, folder / "clnr", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest.resources, "files", lambda name: folder / "clnr")
    return folder / "clnr"


@pytest.mark.full
def test_the_version_is_of_the_code_wherever_it_stands(tmp_path, monkeypatch):
    first = code_version()
    assert len(first) == 16
    package = copied(tmp_path, monkeypatch)
    assert code_version.__wrapped__() == first
    (package / "nn" / "layers.py").rename(package / "nn" / "strata.py")
    assert code_version.__wrapped__() == first
    (package / "cli" / "app.py").write_text("1")
    assert code_version.__wrapped__() == first
    (package / "rng.py").write_text((package / "rng.py").read_text().replace("_ROUNDS = 6", "_ROUNDS = 7"))
    assert code_version.__wrapped__() != first


def test_the_version_covers_whatever_a_run_imports():
    """All packages that a run reaches, but for those that hold no arithmetic of a result."""
    apart = {"errors", "experiments", "support", "version"}
    reached, left = set(), ["experiments/run.py", "experiments/learn.py"]
    while left:
        entry = left.pop()
        if entry in reached:
            continue
        reached.add(entry)
        path = SOURCE / entry
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "clnr":
                    names = [f"{node.module}.{alias.name}".split(".")[1] for alias in node.names]
                    left += [name if (SOURCE / name).is_dir() else f"{name}.py" for name in names if name not in apart]
    assert reached == set(NUMERICS)

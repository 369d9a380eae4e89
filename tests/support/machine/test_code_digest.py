from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import networkx as nx
import pytest

from clnr.support.machine import code_digest
from clnr.support.machine.code_digest import KNOWN_DIGESTS, NUMERICS, code_version, module_digest
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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package, whose version is asked for, and a cache folder of its own."""
    copy = tmp_path / "clnr"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_digest.resources, "files", lambda name: copy)
    monkeypatch.setenv("CLNR_HOME", str(tmp_path / "home"))
    return copy


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.full
def test_the_version_is_of_the_code_wherever_it_stands(package):
    first = code_version()
    (package / "nn" / "layers.py").rename(package / "nn" / "strata.py")
    (package / "cli" / "app.py").write_text("1")
    assert (code_version.__wrapped__(), len(first)) == (first, 16)
    change(package / "rng.py", "_ROUNDS = 6", "_ROUNDS = 7")
    assert code_version.__wrapped__() != first


def test_files_are_parsed_once_and_again_when_a_byte_differs(package, monkeypatch):
    first, parsed = code_version.__wrapped__(), []
    parse = code_digest.module_digest
    monkeypatch.setattr(code_digest, "module_digest", lambda source: parsed.append(source) or parse(source))
    assert (code_version.__wrapped__(), parsed) == (first, [])
    file = package / "rng.py"
    times = file.stat()
    change(file, "_ROUNDS = 6", "_ROUNDS = 7")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file.stat().st_size == times.st_size
    assert code_version.__wrapped__() != first
    assert len(parsed) > 100
    change(file, "_ROUNDS = 7", "_ROUNDS = 6")
    assert code_version.__wrapped__() == first


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, '{"KEY": 3}', '{"KEY": "../x"}', "\0", "folder"])
def test_a_cache_that_is_damaged_or_foreign_is_ignored(package, tmp_path, content, monkeypatch):
    sources = [(package / "rng.py").read_bytes()]
    monkeypatch.setattr(code_digest, "read_numerics", lambda package: sources)
    file = tmp_path / "home" / "cache" / KNOWN_DIGESTS
    file.parent.mkdir(parents=True)
    if content == "folder":
        file.mkdir()
    else:
        file.write_text(content.replace("KEY", code_digest.content_digest(sources)))
    assert code_version.__wrapped__() == code_digest.source_digest(sources)
    assert file.is_dir() or json.loads(file.read_text()) == {code_digest.content_digest(sources): code_version.__wrapped__()}


def test_the_digest_that_a_wheel_has_is_taken_for_its_own_files_alone(package, monkeypatch):
    sources = [(package / "rng.py").read_bytes()]
    monkeypatch.setattr(code_digest, "read_numerics", lambda package: sources)
    (package / KNOWN_DIGESTS).write_text(json.dumps({code_digest.content_digest(sources): "0123456789abcdef"}))
    assert code_version.__wrapped__() == "0123456789abcdef"
    sources[0] += b"1"
    assert code_version.__wrapped__() == code_digest.source_digest(sources)


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

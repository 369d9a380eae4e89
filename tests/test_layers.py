"""The order of the package's modules: no import runs up, and none in a circle, however it is written."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import networkx as nx

import clnr

SOURCE = Path(clnr.__file__).parent
MOST_MODULES = 15

# A module imports only from its own layer and those above it; the package itself and its entry point may name any.
ORDER = (
    *("version", "errors", "support", "rng", "graph", "datasets", "tables", "engine", "nn", "augment"),
    *("methods", "training", "evaluation", "experiments", "report", "embedding", "cli", "__main__"),
)


class Arrow(NamedTuple):
    """That a module names another, be it for the type checker alone."""

    source: str
    target: str


@functools.cache
def modules() -> dict[str, Path]:
    """The files of all modules and packages, by their full names."""
    paths = {path: path.relative_to(SOURCE.parent).with_suffix("").parts for path in SOURCE.rglob("*.py")}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in paths.items()}


@functools.cache
def arrows() -> list[Arrow]:
    """Every arrow from a module to another, each file parsed once."""
    return [
        Arrow(source, target)
        for source, path in modules().items()
        for node in walk(ast.parse(path.read_text()))
        for target in named(node)
        if target != source
    ]


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All of a syntax tree, wherever it stands, without docstrings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from walk(child)


def named(node: ast.AST) -> list[str]:
    """The modules that an import or a text names: ``import_module(...)``, or a script."""
    if isinstance(node, ast.Import):
        words = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        below = [f"{node.module}.{alias.name}" for alias in node.names]
        # What is no module itself is a name in one.
        words = [word if word in modules() else str(node.module) for word in below]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = re.findall(r"clnr(?:\.\w+)+", node.value)
    else:
        words = []
    return [word for word in words if word in modules()]


def layer(module: str) -> int:
    return ORDER.index(module.split(".")[1])


def test_the_order_names_every_package_and_module_once():
    top = {name.split(".")[1] for name in modules() if name.startswith("clnr.")}
    assert sorted(ORDER) == sorted(top)


def test_no_arrow_runs_up():
    inner = [arrow for arrow in arrows() if "clnr" not in (arrow.source, arrow.target)]
    up = {(arrow.source, arrow.target) for arrow in inner if layer(arrow.target) > layer(arrow.source)}
    assert not up


def test_no_modules_import_each_other_in_a_circle():
    """At import, in a function, for the type checker, or by a text; the package itself imports names when asked for them."""
    graph = nx.DiGraph(arrows())
    graph.remove_node("clnr")
    circle = [] if nx.is_directed_acyclic_graph(graph) else nx.find_cycle(graph)
    assert not circle, " -> ".join([source for source, _ in circle] + [circle[0][0]])


def test_no_folder_has_more_than_15_modules():
    counts = Counter(path.parent for path in modules().values())
    assert not {str(path.relative_to(SOURCE)): count for path, count in counts.items() if count > MOST_MODULES}


def test_no_name_of_a_module_occurs_twice():
    """So that it says which file is meant; a package and its main module may share one, as ``graph.graph``."""
    files = [path for path in modules().values() if path.stem not in ("__init__", "__main__")]
    packages = [path.parent for path in modules().values() if path.stem == "__init__" and path.parent != SOURCE]
    counts = Counter([path.stem for path in files if path.stem != path.parent.name] + [path.name for path in packages])
    assert [name for name, count in counts.items() if count > 1] == []
    assert len(list(SOURCE.glob("*.py"))) <= 5


def test_the_picture_of_the_layers_is_that_of_the_imports():
    from tests.layer_picture import parts, picture

    assert parts()[1] == picture(), "python -m tests.layer_picture writes it anew"

"""A digest of the code that decides results, so that a run made by other code is another run."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

# Packages and modules that decide a result, from data to metrics. The command line, reports and the run cache do not.
NUMERICS = (
    "rng.py",
    "graph",
    "datasets",
    "engine",
    "nn",
    "augment",
    "methods",
    "training",
    "evaluation",
    "experiments/run.py",
)


@functools.cache
def code_version() -> str:
    """The digest of ``NUMERICS``: neither a file's place nor a comment, docstring or blank line changes it."""
    package = Path(str(resources.files("clnr")))
    files = [file for entry in NUMERICS for file in _modules(package / entry)]
    digests = sorted(module_digest(file.read_text(encoding="utf-8")) for file in files)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def _modules(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]


def module_digest(source: str) -> str:
    """The digest of one module's syntax tree, alike in every version of Python."""
    return hashlib.sha256("\0".join(_words(ast.parse(source))).encode()).hexdigest()


def _words(node: ast.AST) -> Iterator[str]:
    """What a syntax tree says. Docstrings, and where in the package a name is imported from, are left out."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            children = [child for child in children if not _is_text(child)]
        if isinstance(node, ast.ImportFrom) and name == "module" and str(value).partition(".")[0] == "clnr":
            children = ["clnr"]
        # What is absent may be None, an empty list or no field at all, as Python's version has it.
        if children and children != [None]:
            yield name
            for child in children:
                yield from _words(child) if isinstance(child, ast.AST) else (repr(child),)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

"""A digest of the code that decides results, so that a run made by other code is another run."""

from __future__ import annotations

import ast
import functools
import hashlib
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
    "experiments/learn.py",
    "experiments/run.py",
)
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_version() -> str:
    """The digest of ``NUMERICS``: neither a file's place nor a comment, docstring or blank line changes it."""
    package = Path(str(resources.files("clnr")))
    paths = [package / entry for entry in NUMERICS]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    digests = sorted(module_digest(file.read_text(encoding="utf-8")) for file in files)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def module_digest(source: str) -> str:
    """The digest of one module's syntax tree, alike in every version of Python."""
    words: list[str] = []
    _add_words(ast.parse(source), words)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _add_words(node: ast.AST, words: list[str]) -> None:
    """Append what a syntax tree says. Docstrings, and where in the package a name is imported from, are left out."""
    kind = type(node)
    words.append(kind.__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        # What is absent may be None, an empty list or no field at all, as Python's version has it.
        if value is None or value == [] or value == [None]:
            continue
        if name == "body" and kind in _WITH_DOCSTRING:
            value = [child for child in value if not _is_text(child)]
            if not value:
                continue
        elif name == "module" and kind is ast.ImportFrom and value.partition(".")[0] == "clnr":
            value = "clnr"
        words.append(name)
        for child in value if type(value) is list else (value,):
            if isinstance(child, ast.AST):
                _add_words(child, words)
            else:
                words.append(repr(child))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)

"""A digest of the code that decides results, so that a run made by other code is another run."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import re
from importlib import resources
from pathlib import Path

from clnr.errors import ClnrError
from clnr.support.machine.paths import cache_folder
from clnr.support.storage.atomic_io import write_atomic

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
KNOWN_DIGESTS = "code_digests.json"
"""The file of digests by the SHA-256 of the files that they are of: in a wheel beside this package, and in the cache folder."""
_MOST_KNOWN = 16
_DIGEST = re.compile(r"[0-9a-f]{16}")
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def code_version() -> str:
    """The digest of ``NUMERICS``: neither a file's place nor a comment, docstring or blank line changes it.

    To parse all of them takes up to a second, so it is kept by the bytes of these files, which are read each time.
    """
    package = Path(str(resources.files("clnr")))
    sources = read_numerics(package)
    content = content_digest(sources)
    for place in (package, _cache()):
        if place is not None and (known := _known(place).get(content)):
            return known
    digest = source_digest(sources)
    _keep(content, digest)
    return digest


def read_numerics(package: Path) -> list[bytes]:
    """The files of ``NUMERICS`` below the folder of the package, in an order that does not depend on their names."""
    paths = [package / entry for entry in NUMERICS]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    return sorted(file.read_bytes() for file in files)


def content_digest(sources: list[bytes]) -> str:
    """The SHA-256 of all bytes of some files, and of this module, which says how ``source_digest`` is made."""
    parts = [hashlib.sha256(each).digest() for each in (Path(__file__).read_bytes(), *sources)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def source_digest(sources: list[bytes]) -> str:
    """The digest of the modules in some files."""
    digests = sorted(module_digest(each.decode("utf-8")) for each in sources)
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def _cache() -> Path | None:
    with contextlib.suppress(ClnrError):
        return cache_folder()
    return None


def _known(place: Path) -> dict[str, str]:
    """The digests that are kept in a folder; what is damaged there, or not ours, is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads((place / KNOWN_DIGESTS).read_text(encoding="utf-8"))
        if isinstance(content, dict):
            return {key: value for key, value in content.items() if isinstance(value, str) and _DIGEST.fullmatch(value)}
    return {}


def _keep(content: str, digest: str) -> None:
    """Add a digest to those in the cache folder, of which the last ones stay; where nothing can be written, nothing is."""
    if (place := _cache()) is not None:
        kept = {**_known(place), content: digest}
        text = json.dumps(dict([*kept.items()][-_MOST_KNOWN:]), indent=1)
        with contextlib.suppress(OSError, ClnrError):
            write_atomic(place / KNOWN_DIGESTS, text.encode())


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

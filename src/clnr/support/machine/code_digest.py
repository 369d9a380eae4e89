"""A digest of the code that decides results, so that a run made by other code is another run."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from pathlib import Path

# What decides a result, from data to metrics. The command line, reports and the run cache do not.
_PACKAGES = ("graph", "datasets", "engine", "nn", "augment", "methods", "training", "evaluation")
_MODULES = ("rng.py", "experiments/learn.py", "experiments/run.py")
_OF_EMBEDDING = ("baselines.py", "defaults.py", "embed.py", "fitting.py", "rows", "scoring")
NUMERICS = (*_PACKAGES, *_MODULES, *(f"embedding/{name}" for name in _OF_EMBEDDING))


@functools.cache
def code_version() -> str:
    """SHA-256 of the bytes of ``NUMERICS``, its first 16 digits."""
    package = Path(str(resources.files("clnr")))
    paths = [package / entry for entry in NUMERICS]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    total = hashlib.sha256()
    for name, file in sorted((file.relative_to(package).as_posix(), file) for file in files):
        total.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]

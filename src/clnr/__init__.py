"""Embeddings of the nodes of a graph, without labels."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from clnr.version import __version__

if TYPE_CHECKING:
    from clnr.datasets import load
    from clnr.embedding.estimator import NodeEmbedder
    from clnr.errors import ClnrError
    from clnr.experiments.results import Run, Summary
    from clnr.experiments.run import recipe_for, run, runs
    from clnr.graph import Graph, Split
    from clnr.methods import CLNR, METHODS, Method
    from clnr.methods.recipe import Recipe
    from clnr.tables import ingest, read_tables

__all__ = [
    "CLNR",
    "METHODS",
    "ClnrError",
    "Graph",
    "Method",
    "NodeEmbedder",
    "Recipe",
    "Run",
    "Split",
    "Summary",
    "__version__",
    "ingest",
    "load",
    "read_tables",
    "recipe_for",
    "run",
    "runs",
]

# Torch's threads fall asleep soon where they have nothing to do, unless the user says how they wait. By default they try for
# milliseconds, on processors that our own loops or other programs want: on 16 cores, an epoch of CLNR on Cora takes twice as
# long. OpenMP reads this when torch is imported; later it has no effect.
if os.environ.keys().isdisjoint({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}):
    os.environ |= {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}

# The module that each name is in. It is imported when the name is first asked for: torch and scikit-learn take seconds.
_HOMES = {
    **dict.fromkeys(("CLNR", "METHODS", "Method"), "methods.registry"),
    **dict.fromkeys(("Graph", "Split"), "graph"),
    **dict.fromkeys(("Run", "Summary"), "experiments.results"),
    **dict.fromkeys(("recipe_for", "run", "runs"), "experiments.run"),
    "ClnrError": "errors",
    "NodeEmbedder": "embedding.estimator",
    "Recipe": "methods.recipe",
    "load": "datasets",
    **dict.fromkeys(("ingest", "read_tables"), "tables"),
}


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package, as if all had been imported."""
    home = f"clnr.{_HOMES.get(name, name)}"
    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        raise AttributeError(f"module 'clnr' has no attribute '{name}'") from None
    return globals().setdefault(name, getattr(module, name) if name in _HOMES else module)


def __dir__() -> list[str]:
    return __all__

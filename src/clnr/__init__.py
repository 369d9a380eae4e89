"""Embeddings of the nodes of a graph, without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clnr.data import load
from clnr.errors import ClnrError
from clnr.graph import Graph, Split
from clnr.methods import CLNR, METHODS, Method
from clnr.recipe import Recipe
from clnr.results import Run, Summary
from clnr.run import embed, recipe_for, run, runs
from clnr.tables import read_tables
from clnr.version import __version__

if TYPE_CHECKING:
    from clnr.embedder import NodeEmbedder

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
    "embed",
    "load",
    "read_tables",
    "recipe_for",
    "run",
    "runs",
]


def __getattr__(name: str) -> Any:
    """NodeEmbedder when it is asked for: scikit-learn takes seconds to import, and nothing else here needs it at once."""
    if name == "NodeEmbedder":
        from clnr.embedder import NodeEmbedder

        return NodeEmbedder
    raise AttributeError(f"module 'clnr' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__

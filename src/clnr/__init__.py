"""Embeddings of the nodes of a graph, without labels."""

from clnr.data import load
from clnr.errors import ClnrError
from clnr.graph import Graph, Split
from clnr.methods import CLNR, METHODS, Method
from clnr.recipe import Recipe
from clnr.results import Run, Summary
from clnr.run import embed, recipe_for, run, runs
from clnr.version import __version__

__all__ = [
    "CLNR",
    "METHODS",
    "ClnrError",
    "Graph",
    "Method",
    "Recipe",
    "Run",
    "Split",
    "Summary",
    "__version__",
    "embed",
    "load",
    "recipe_for",
    "run",
    "runs",
]

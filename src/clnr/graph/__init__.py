"""Graphs: immutable, checked when they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clnr.graph.graph import Graph, Split

__all__ = ["Graph", "Split"]


def __getattr__(name: str) -> Any:
    """A name of ``clnr.graph.graph``, which imports NumPy and SciPy: where a graph is only looked for, that is not needed."""
    if name not in __all__:
        raise AttributeError(f"module 'clnr.graph' has no attribute '{name}'")
    from clnr.graph import graph

    return getattr(graph, name)

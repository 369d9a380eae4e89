"""A graph: immutable, its edges by source and by target, checked as it is made."""

from __future__ import annotations

from clnr.graph.graph import Graph, Split

__all__ = ["Graph", "Split"]

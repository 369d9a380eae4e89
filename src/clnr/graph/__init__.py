"""Graphs: immutable, checked when they are made."""

from __future__ import annotations

from clnr.graph.graph import Graph, Split

__all__ = ["Graph", "Split"]

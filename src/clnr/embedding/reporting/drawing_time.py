"""How long the map of an embedding takes to draw."""

from __future__ import annotations

from clnr.embedding.reporting.map_layouts import MAP_LAYOUTS
from clnr.experiments.cost import searching
from clnr.graph.csr import Array
from clnr.support.humanize import duration

MOST_MAP_NODES = 100_000
"""The most nodes that a map shows."""
# A map that takes longer than so many seconds is announced with an estimate.
_SLOW_MAP_SECONDS = 15.0


def drawing_seconds(nodes: int, width: int, layout: str) -> float:
    """Estimated seconds of the map of an embedding: of neighbours, and of the layout."""
    shown = min(nodes, MOST_MAP_NODES)
    return searching(shown, width) + MAP_LAYOUTS[layout].seconds(shown)


def drawing_note(z: Array, layout: str) -> str:
    """What is said before the map of an embedding is drawn; with an estimate, if that takes long."""
    seconds = drawing_seconds(len(z), z.shape[1], layout)
    return f"drawing the map for the report{f' ({layout}): about {duration(seconds)}' if seconds > _SLOW_MAP_SECONDS else ''}"

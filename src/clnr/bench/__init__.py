"""How fast this machine trains: CLNR against the same in plain PyG, on the embedded graph and on generated ones that grow."""

from __future__ import annotations

from clnr.bench.measure import EDGES_PER_NODE, Measured, generated, growing, measure

__all__ = ["EDGES_PER_NODE", "Measured", "generated", "growing", "measure"]

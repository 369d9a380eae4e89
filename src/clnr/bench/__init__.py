"""How fast this machine trains: CLNR against the same in plain PyG, on the built-in graph and on generated ones that grow."""

from __future__ import annotations

from clnr.bench.timing import Measured, generated, growing, measure

__all__ = ["Measured", "generated", "growing", "measure"]

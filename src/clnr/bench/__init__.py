"""How fast this machine trains: CLNR against the same in plain PyG, on the built-in graph and on generated ones that grow."""

from __future__ import annotations

from clnr.bench.timing import BenchmarkResult, generated, growing, measure

__all__ = ["BenchmarkResult", "generated", "growing", "measure"]

"""Benchmark of this machine: CLNR against plain PyG, on the built-in graph and on growing synthetic graphs."""

from __future__ import annotations

from clnr.bench.timing import BenchmarkResult, generated, growing, measure

__all__ = ["BenchmarkResult", "generated", "growing", "measure"]

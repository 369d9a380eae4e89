"""A graph in memory written as a graph folder: for benchmarks and tests, where users have tables (``clnr ingest``)."""

from __future__ import annotations

from pathlib import Path

from clnr.graph import Graph, folder


def write_graph(graph: Graph, path: Path, feature_type: str = "float32") -> Graph:
    """Write a graph in memory to a folder that is not there yet; returns it as it is mapped from there."""
    path.mkdir(parents=True)
    folder.write_graph(graph, path, feature_type)
    return folder.open_graph(path)

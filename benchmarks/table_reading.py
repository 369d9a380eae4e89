"""Reading a long CSV table of edges with text ids, deduplicated and indexed: clnr against pandas.

    python -m benchmarks.table_reading --edges 10000000

They take turns, each in a process of its own, without imports. clnr then builds the graph with structural features; both times
are printed.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import command, positive
from clnr.support.machine import memory
from clnr.tables import memory_sink, read_tables

NODES_PER_EDGE = 10


def write_edges(path: Path, edges: int) -> None:
    """Write a file of random edges between a tenth as many nodes."""
    random = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        file.write("source,target\n")
        for _ in range(0, edges, 1_000_000):
            ends = random.integers(0, max(2, edges // NODES_PER_EDGE), (min(edges, 1_000_000), 2))
            file.writelines(f"user-{a},user-{b}\n" for a, b in ends.tolist())


def by_clnr(path: str) -> dict[str, float]:
    import duckdb  # noqa: F401

    began, indexed = time.perf_counter(), []
    original = memory_sink.degree_features

    def degree_features(*given: object) -> object:
        indexed.append(time.perf_counter() - began)
        return original(*given)

    memory_sink.degree_features = degree_features
    graph = read_tables(path).graph
    whole = time.perf_counter() - began
    return {"indexed": indexed[0], "graph": whole, "nodes": graph.num_nodes, "pairs": graph.num_edges // 2}


def by_pandas(path: str) -> dict[str, float]:
    import pandas

    began = time.perf_counter()
    table = pandas.read_csv(path, dtype=str)
    codes, ids = pandas.factorize(pandas.concat([table["source"], table["target"]], ignore_index=True))
    a, b = codes[: len(table)], codes[len(table) :]
    pairs = pandas.DataFrame({"a": np.minimum(a, b), "b": np.maximum(a, b)})[a != b].drop_duplicates()
    return {"indexed": time.perf_counter() - began, "nodes": len(ids), "pairs": len(pairs)}


READERS = {"clnr": by_clnr, "pandas": by_pandas}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=positive, default=10_000_000)
    parser.add_argument("--turns", type=positive, default=3)
    parser.add_argument("--one", nargs=2, metavar=("WHO", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        who, path = given.one
        print(json.dumps(READERS[who](path) | {"bytes": memory.lifetime_peak()}))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        write_edges(path, given.edges)
        where = f"{platform.machine()}, Python {platform.python_version()}"
        print(f"{given.edges:,} edges, {path.stat().st_size / 1e6:,.0f} MB; {where}")
        found: dict[str, list[dict[str, float]]] = {who: [] for who in READERS}
        for _ in range(given.turns):
            for who, results in found.items():
                words = [sys.executable, "-m", "benchmarks.table_reading", "--one", who, str(path)]
                results.append(json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    for who, results in found.items():
        times = [result["indexed"] for result in results]
        line = f"{statistics.median(times):.1f} s ({min(times):.1f}-{max(times):.1f}) to distinct edges by index"
        if "graph" in results[0]:
            line += f", {statistics.median(result['graph'] for result in results):.1f} s to a graph with features"
        size = f"{results[0]['nodes']:,} nodes, {results[0]['pairs']:,} pairs, {results[0]['bytes'] / 2**30:.1f} GiB"
        print(f"{who:8} {line}; {size}")


if __name__ == "__main__":
    command(main)

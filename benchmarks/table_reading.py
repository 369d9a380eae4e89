"""Reading a long CSV table of edges with text ids: ``clnr ingest``, also that of another checkout, and pandas.

    python -m benchmarks.table_reading --edges 10_000_000
    python -m benchmarks.table_reading --edges 10_000_000 --other PATH_TO_SRC

They take turns, each as a process of its own, whose seconds, imports among them, and peak of memory are printed. pandas only
deduplicates and indexes the edges; clnr also sorts them, makes structural features, and writes a graph folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import command, positive
from benchmarks._processes import Finished, environment, machine, run
from clnr.errors import ClnrError

NODES_PER_EDGE = 10
OURS = Path(__file__).parents[1] / "src"


def write_edges(path: Path, edges: int) -> None:
    """Write a file of random edges between a tenth as many nodes."""
    random = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        file.write("source,target\n")
        for first in range(0, edges, 1_000_000):
            ends = random.integers(0, max(2, edges // NODES_PER_EDGE), (min(edges - first, 1_000_000), 2))
            file.writelines(f"user-{a},user-{b}\n" for a, b in ends.tolist())


def by_pandas(path: str) -> dict[str, int]:
    import pandas

    table = pandas.read_csv(path, dtype=str)
    codes, ids = pandas.factorize(pandas.concat([table["source"], table["target"]], ignore_index=True))
    a, b = codes[: len(table)], codes[len(table) :]
    pairs = pandas.DataFrame({"a": np.minimum(a, b), "b": np.maximum(a, b)})[a != b].drop_duplicates()
    return {"nodes": len(ids), "edges": len(pairs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=positive, default=10_000_000)
    parser.add_argument("--turns", type=positive, default=3)
    parser.add_argument("--other", type=Path, metavar="PATH_TO_SRC", help="sources of another clnr, to ingest by it, too")
    parser.add_argument("--pandas", metavar="FILE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.pandas:
        print(json.dumps(by_pandas(given.pandas)))
        return
    print(f"{given.edges:,} edges; {', '.join(machine().values())}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        write_edges(path, given.edges)
        words = ["clnr", "ingest", "--edges", str(path), "--out", f"{folder}/graph", "--force", "--json", "--quiet"]
        readers = {"clnr": (OURS, words), "pandas": (OURS, ["benchmarks.table_reading", "--pandas", str(path)])}
        readers |= {} if given.other is None else {"clnr of --other": (given.other.resolve(), words)}
        found: dict[str, list[Finished]] = {who: [] for who in readers}
        for _ in range(given.turns):
            for who, (sources, module) in readers.items():
                done = run([sys.executable, "-m", *module], environment("cpu") | {"PYTHONPATH": str(sources)})
                if done.failure is not None:
                    raise ClnrError(f"{who}: {done.failure}")
                found[who].append(done)
    for who, results in found.items():
        seconds, size = [each.seconds for each in results], json.loads(results[0].output)
        took = f"{statistics.median(seconds):.1f} s ({min(seconds):.1f}-{max(seconds):.1f})"
        peak = max(each.peak for each in results) / 2**30
        print(f"{who:16} {took}, peak of memory {peak:.2f} GiB; {size['nodes']:,} nodes, {size['edges']:,} edges")


if __name__ == "__main__":
    command(main)

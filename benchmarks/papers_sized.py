"""A graph of ogbn-papers100M's shape, or a share of it, from tables to shards in bounded memory: seconds and peak memory.

    python -m benchmarks.papers_sized FOLDER --share 0.001    # 111,000 nodes
    python -m benchmarks.papers_sized FOLDER --share 0.1 --memory '4 GB' --dtype float16
    python -m benchmarks.papers_sized FOLDER --share 0.3 --without-tables --device cuda --no-report

Writes Parquet files of edges and nodes (at share 1: 111 million nodes, 1.6 billion edges in both directions, 128 features and
172 classes), then runs clnr ingest, and clnr embed, each as a process of its own. Tables and folders stay in FOLDER. Further
options, such as --json for the seconds of each stage, are those of clnr embed.

With --without-tables the graph folder is written at once, and ingest is left out. Its graph is a simple one, which needs no
sorting: every node has 14 neighbours anywhere, so that each that is read is on another page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._regular import DEGREE, RegularGraph
from clnr.graph.csr import Array
from clnr.graph.folder import GraphWriter
from clnr.graph.table_info import TableInfo

NODES, LINKS, FEATURES, CLASSES = 111_059_956, 807_000_000, 128, 172
WITHIN = 0.7
TAIL = 2.5
ROWS = 1 << 20
WAITING = 64


def edge_tables(nodes: int, links: int, seed: int = 0) -> Iterator[pa.Table]:
    """Undirected edges, most of them within a class (a node's number modulo their count), degrees with a heavy tail."""
    classes = min(CLASSES, nodes)
    for first in range(0, links, ROWS):
        random = np.random.default_rng([seed, first])
        count = min(ROWS, links - first)
        source = (nodes * random.random(count) ** TAIL).astype(np.int64)
        target = random.integers(0, nodes, count)
        fellow = target - target % classes + source % classes
        target = np.where((random.random(count) < WITHIN) & (fellow < nodes), fellow, target)
        yield pa.table({"source": scrambled(source), "target": scrambled(target)})


def node_tables(nodes: int, seed: int = 0) -> Iterator[pa.Table]:
    """Ids, a vector near the centre of the node's class, and the class of one node in a hundred."""
    centres = np.random.default_rng([seed, 1]).normal(size=(CLASSES, FEATURES)).astype(np.float32)
    step = ROWS // 8
    for first in range(0, nodes, step):
        random = np.random.default_rng([seed, 2, first])
        node = np.arange(first, min(first + step, nodes))
        label = node % min(CLASSES, nodes)
        vectors = 0.5 * centres[label] + random.standard_normal((len(node), FEATURES), np.float32)
        flat = pa.array(vectors.reshape(-1))
        known = pa.array(label, mask=random.random(len(node)) > 0.01)
        columns = {"id": scrambled(node), "x": pa.FixedSizeListArray.from_arrays(flat, FEATURES), "label": known}
        yield pa.table(columns)


def scrambled(node: Array) -> Array:
    """Ids in no order: a bijection of the numbers below 2^40."""
    return node * 2_654_435_761 % (1 << 40)


def write(tables: Iterator[pa.Table], folder: Path, files: int) -> None:
    """Write tables to a few Parquet files, in turns."""
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[int, pq.ParquetWriter] = {}
    for number, table in enumerate(tables):
        at = number % files
        if at not in writers:
            writers[at] = pq.ParquetWriter(folder / f"part-{at}.parquet", table.schema)
        writers[at].write_table(table)
    for writer in writers.values():
        writer.close()


def write_folder(folder: Path, nodes: int, dtype: str, seed: int = 0) -> None:
    """A graph folder of a regular graph, with random features."""
    folder.mkdir(parents=True)
    writer, regular = GraphWriter(folder, dtype), RegularGraph(nodes, seed)
    step = ROWS // 8
    parts = [np.arange(first, min(first + step, nodes)) for first in range(0, nodes, step)]

    counts = np.zeros(nodes + 1, np.int64)

    def neighbours(node: Array) -> Array:
        counts[node + 1], found = regular.neighbours(node)
        return found

    def features(node: Array) -> Array:
        return np.random.default_rng([seed, int(node[0])]).standard_normal((len(node), FEATURES), np.float32)

    with writer.array("ids.values") as append:
        append(np.arange(nodes))
    with ThreadPoolExecutor() as pool:
        for make, writing in (
            (neighbours, writer.array("incoming.indices")),
            (features, writer.array("features.values")),
        ):
            with writing as append:
                for first in range(0, len(parts), WAITING):
                    for values in pool.map(make, parts[first : first + WAITING]):
                        append(values)
    with writer.array("incoming.indptr") as append:
        append(counts.cumsum())
    writer.close(TableInfo(), "regular", FEATURES)


def timed(words: list[str]) -> None:
    """Run a command, and print its seconds and the peak of its memory."""
    print("$", " ".join(words), flush=True)
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        print(f"  {time.perf_counter() - began:6.1f} s  {line}", end="", flush=True)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    print(f"  {time.perf_counter() - began:.1f} s, peak memory {usage.ru_maxrss / 2**20:.2f} GiB", flush=True)
    if process.returncode:
        sys.exit(process.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=float, default=0.001, help="of papers100M's nodes and edges")
    parser.add_argument("--memory", default="4 GB")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--epochs", default="200")
    parser.add_argument("--method", default="CLNR")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", default="1")
    parser.add_argument("--threads", help="of each worker")
    parser.add_argument("--without-tables", action="store_true", help="write the graph folder at once")
    asked, more = parser.parse_known_args()
    nodes, links = round(NODES * asked.share), round(LINKS * asked.share)
    folder = asked.folder
    graph, vectors = folder / "graph", folder / "embedded"
    if asked.without_tables and not graph.is_dir():
        began = time.perf_counter()
        write_folder(graph, nodes, asked.dtype)
        print(f"{nodes:,} nodes, each with {DEGREE} neighbours, written in {time.perf_counter() - began:.1f} s", flush=True)
    elif not asked.without_tables and not (folder / "nodes").is_dir():
        began = time.perf_counter()
        write(edge_tables(nodes, links), folder / "edges", 4)
        write(node_tables(nodes), folder / "nodes", 4)
        print(f"{nodes:,} nodes and {links:,} rows of edges written in {time.perf_counter() - began:.1f} s")
    if not asked.without_tables:
        tables = ["--edges", f"{folder}/edges/*.parquet", "--nodes", f"{folder}/nodes/*.parquet", "--label", "label"]
        timed(["clnr", "ingest", *tables, "--out", str(graph), "--memory", asked.memory, "--dtype", asked.dtype, "--force"])
    set_to = {"method": asked.method, "epochs": asked.epochs, "device": asked.device, "threads": asked.threads}
    words = ["--memory", asked.memory, "--workers", asked.workers]
    words += [word for name, value in set_to.items() if value is not None for word in ("--set", f"{name}={value}")]
    timed(["clnr", "embed", "--graph", str(graph), "--out", str(vectors), *words, *more, "--force"])


if __name__ == "__main__":
    main()

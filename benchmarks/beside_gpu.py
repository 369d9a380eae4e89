"""The largest graph beside one GPU: a graph folder on the host, trained on and embedded from its files, against the plan.

    python -m benchmarks.beside_gpu --estimate 20e6 40e6 80e6               # bytes and rough seconds, nothing is done
    python -m benchmarks.beside_gpu FOLDER --nodes 40e6 --memory '100 GB'   # again: goes on where it was stopped
    python -m benchmarks.beside_gpu FOLDER --nodes 200e3 --device cpu --memory '3 GB'

Every node has 14 neighbours anywhere and 128 features in float16. The folder is written at once, without ingest, and clnr embed
goes on from its checkpoint or from its last block when the command is given again. FOLDER has the graph and the vectors;
--graph puts the graph elsewhere, such as on a disk in memory. What each stage took is kept in FOLDER/measured.json. Further
options, such as --no-report, are those of clnr embed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import command
from benchmarks._regular import DEGREE
from benchmarks.papers_sized import FEATURES, timed, write_folder
from clnr.errors import DataError
from clnr.support.humanize import duration, gigabytes
from clnr.support.machine import environment

# Bytes of a node: its edges, features, id and the start of its edges; then a number of the layer between and of its vector.
_GRAPH_BYTES = 4 * DEGREE + 2 * FEATURES + 8 + 8
_NUMBER = 4
# Seconds for a million nodes on an H200 with 16 cores, 128 columns: to write the folder, the first layer, the second one.
_SECONDS = 1.2, 3.7, 7.5
_TRAINING = 30.0
_MOST_DISK = 60e9


def disk_bytes(nodes: int, hidden: int, dimension: int) -> tuple[float, float]:
    """Bytes of the graph folder, and of the layer between and the shards with their ids."""
    return nodes * _GRAPH_BYTES, nodes * (_NUMBER * (hidden + dimension) + 8)


def estimate(counts: list[float], hidden: int, dimension: int) -> None:
    print(f"{'nodes':>12}{'edges':>16}{'graph':>10}{'layer, shards':>15}{'disk':>10}   rough time")
    for count in counts:
        graph, vectors = disk_bytes(round(count), hidden, dimension)
        writing, first, second = (each * count / 1e6 for each in _SECONDS)
        times = f"write {duration(writing)}, train {duration(_TRAINING)}, layers {duration(first)} and {duration(second)}"
        sizes = f"{gigabytes(graph):>10}{gigabytes(vectors):>15}{gigabytes(graph + vectors):>10}"
        print(f"{count:>12,.0f}{DEGREE * count:>16,.0f}{sizes}   {times}")


def write(graph: Path, nodes: int) -> float:
    """Write the graph folder, or nothing; returns the seconds."""
    began, part = time.perf_counter(), graph.with_name(f"{graph.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    write_folder(part, nodes, "float16")
    part.rename(graph)
    return time.perf_counter() - began


# -- the process that embeds -------------------------------------------------------------------------------------------


class Meter:
    """What a process has taken: bytes that steps have read, and the most memory, of its own and of the GPU.

    Args:
        path: Where the numbers of each stage are kept.
    """

    def __init__(self, path: Path):
        self._path, self._read, self._most = path, 0, {"own": 0, "mapped": 0}
        self._count_reads()
        threading.Thread(target=self._watch, daemon=True).start()

    def _count_reads(self) -> None:
        """Count the rows and edges of the graph folder that are read; how often a page of them was is not seen."""
        from clnr.engine.files import mapped

        read_rows, call = mapped.read_rows, mapped.StoredKeptRows._call

        def counted_rows(array: Any, nodes: Any) -> Any:
            self._read += len(nodes) * array.values[:1].nbytes
            return read_rows(array, nodes)

        def counted_edges(rule: Any, kernel: str, rows: Any, *more: Any) -> None:
            if kernel == "count_stored":
                indptr, columns, _ = rule._edges.arrays
                self._read += int((indptr[rows + 1] - indptr[rows]).sum()) * columns.itemsize
            call(rule, kernel, rows, *more)

        mapped.read_rows, mapped.StoredKeptRows._call = counted_rows, counted_edges

    def _watch(self) -> None:
        """Look at the memory of this process, several times a second."""
        status = Path("/proc/self/status")
        while status.is_file():
            found = dict(line.split(":", 1) for line in status.read_text().splitlines())
            for name, key in (("own", "RssAnon"), ("mapped", "RssFile")):
                self._most[name] = max(self._most[name], 1024 * int(found.get(key, "0 kB").split()[0]))
            time.sleep(0.2)

    def stage(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function; what its call takes is kept."""

        def measured(*values: Any, **named: Any) -> Any:
            began, before = time.perf_counter(), self._read
            result = function(*values, **named)
            taken = {"seconds": time.perf_counter() - began, "read": self._read - before, "most": dict(self._most)}
            if torch.cuda.is_available():
                free, total = torch.cuda.mem_get_info()
                taken["gpu"] = {"tensors": torch.cuda.max_memory_allocated(), "used": total - free}
            kept = json.loads(self._path.read_text()) if self._path.is_file() else {}
            self._path.write_text(json.dumps(kept | {name: taken}))
            return result

        return measured


def embed(measured: Path, words: list[str]) -> None:
    """Run clnr embed in this process, and keep what training, embedding and the whole take."""
    from clnr.cli.app import app
    from clnr.embedding.stages.block_passes import Part, Passes
    from clnr.embedding.stages.graph_in_files import GraphInFiles

    meter, make = Meter(measured), Passes.make
    GraphInFiles.train = meter.stage("train", GraphInFiles.train)

    def one_pass(passes: Passes, parts: list[Part]) -> None:
        meter.stage(parts[0].what.removeprefix("the encoder's "), make)(passes, parts)

    Passes.make = one_pass
    meter.stage("all", lambda: app(words, standalone_mode=False))()


# -- the process that asks ---------------------------------------------------------------------------------------------


def planned(words: list[str]) -> dict[str, Any]:
    """What the plan says."""
    asked = [sys.executable, "-m", "clnr", *words, "--dry-run", "--json"]
    return json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def tell(measured: dict[str, Any], plan: dict[str, Any], epochs: int) -> None:
    """Print what each stage took, beside the plan."""
    for name, taken in measured.items():
        of_gpu = taken.get("gpu", {"tensors": 0, "used": 0})
        print(
            f"{name:10}{taken['seconds']:8.1f} s   so far at most: host {gigabytes(taken['most']['own'])} of its own and "
            f"{gigabytes(taken['most']['mapped'])} of files; GPU {gigabytes(of_gpu['tensors'])} of tensors, "
            f"{gigabytes(of_gpu['used'])} in use"
        )
    if "train" in measured:
        step = measured["train"]["read"] / epochs
        print(f"a step reads {gigabytes(step)} of features and edges; by the plan up to {gigabytes(plan['step_bytes'])}")
    print(f"by the plan: {gigabytes(plan['memory_bytes'])} of memory, {gigabytes(plan['disk_bytes'])} of disk")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        embed(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--nodes", type=float, default=200e3)
    parser.add_argument("--estimate", type=float, nargs="+", metavar="NODES")
    parser.add_argument("--graph", type=Path, help="where the graph folder is written; FOLDER/graph by default")
    parser.add_argument("--memory", default="100 GB")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--device", default="cuda")
    asked, more = parser.parse_known_args()
    widths = asked.hidden, asked.dimension
    if asked.estimate:
        estimate(asked.estimate, *widths)
        return
    if asked.folder is None:
        parser.error("a FOLDER is needed, or --estimate")
    folder, nodes = asked.folder, round(asked.nodes)
    graph = asked.graph or folder / "graph"
    folder.mkdir(parents=True, exist_ok=True)
    of_graph, of_vectors = disk_bytes(nodes, *widths)
    needed = of_vectors + (of_graph if asked.graph is None else 0)
    if needed > _MOST_DISK:
        raise DataError(f"{gigabytes(needed)} of disk would be needed, over {gigabytes(_MOST_DISK)}; ask for fewer --nodes")
    print(f"{environment.describe(torch.device(asked.device))}, torch {torch.__version__}, {os.cpu_count()} processors")
    if not graph.is_dir():
        print(f"{nodes:,} nodes, each with {DEGREE} neighbours: written in {write(graph, nodes):.1f} s", flush=True)
    print(f"graph folder: {gigabytes(size_of(graph))}; free disk: {gigabytes(shutil.disk_usage(folder).free)}", flush=True)
    words = ["embed", "--graph", str(graph), "--from-files", "--out", str(folder / "vectors"), "--method", "CLNR"]
    words += ["--memory", asked.memory, "--device", asked.device, "--set", f"epochs={asked.epochs}"]
    words += ["--set", f"hidden={widths[0]}", "--set", f"dimension={widths[1]}", *more]
    plan, measured = planned(words), folder / "measured.json"
    print(f"by the plan: {gigabytes(plan['memory_bytes'])} of memory, {gigabytes(plan['disk_bytes'])} of disk", flush=True)
    timed(["benchmarks.beside_gpu", "--one", str(measured), *words, "--checkpoint-every", "50", "--resume"])
    tell(json.loads(measured.read_text()), plan, asked.epochs)
    print(f"vectors and model: {gigabytes(size_of(folder / 'vectors'))}")


if __name__ == "__main__":
    command(main)

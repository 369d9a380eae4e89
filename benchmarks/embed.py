"""The whole of ``clnr embed``, as a user runs it, beside rivals: seconds, peaks of memory and accuracy, in one run.

    python -m benchmarks.embed cora pubmed                    # data sets by name
    python -m benchmarks.embed arxiv-sized 200000             # generated graphs: of ogbn-arxiv's size, or of so many nodes
    python -m benchmarks.embed cora --cold --only quick,standard,pycleora
    python -m benchmarks.embed cora --python rivals/bin/python --out cora.json

Each is a process of its own that reads two Parquet tables with text ids and writes vectors of --dimension numbers, clnr without
a report; they take turns. Beside the whole time stands what it is above T, the time of ``import torch`` on this machine, and
then the stages of clnr, as ``clnr embed --json`` has them. A first turn, which is not counted, warms up what the system caches.
With --cold, caches of compiled kernels are empty at first: that turn is shown as cold.

Accuracy is that of one logistic regression for all, fitted to a tenth of the nodes, its penalty chosen by another tenth, on all
others; a generated graph has nothing to learn. Rivals: pycleora with its defaults, node2vec of PyG and of GRAPE with the walks
of PyG's example but fewer epochs, CLNR in plain PyG with clnr's hyper-parameters. What is not installed, fails or takes too
long is named. A generated graph of so many nodes has ten times as many edges, and three columns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _rivals, command, positive
from benchmarks._processes import Finished, environment, machine, run, stages_of
from benchmarks._rivals import RIVALS
from clnr.errors import ClnrError
from clnr.support.stage_clock import STAGES

EFFORTS = ("quick", "standard")
GENERATED_COLUMNS, EDGES_PER_NODE = 3, 10
# Nodes, pairs and columns.
GENERATED = {"arxiv-sized": (169_343, 1_157_799, 128)}
PENALTIES = (0.001, 0.01, 0.1, 1.0)
# A rival that takes longer is run once.
LONG_SECONDS = 60


def write_tables(name: str, folder: Path) -> bool:
    """Write a graph as two Parquet tables; tells whether its labels can be learned."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks._graphs import shaped
    from clnr import datasets

    made = name in GENERATED or name.isdecimal()
    if made:
        graph = shaped(*(GENERATED.get(name) or (int(name), EDGES_PER_NODE * int(name), GENERATED_COLUMNS)))
    else:
        graph = datasets.load(name)
    source, target, _ = graph.edges()
    once = source < target
    ids = np.char.add("node-", np.arange(graph.num_nodes).astype(str))
    pq.write_table(pa.table({"source": ids[source[once]], "target": ids[target[once]]}), folder / "edges.parquet")
    x = graph.features.toarray() if graph.sparse else graph.features
    columns = {"id": ids, "label": np.char.add("class-", graph.labels.astype(str))}
    columns |= {"x": pa.FixedSizeListArray.from_arrays(x.astype(np.float32).reshape(-1), x.shape[1])}
    pq.write_table(pa.table(columns), folder / "nodes.parquet")
    return not made


def accuracy(folder: Path, vectors: np.ndarray) -> float:
    """What ``probe`` finds of vectors of the nodes of a table in a folder."""
    import pyarrow.parquet as pq

    labels = np.array(pq.read_table(folder / "nodes.parquet", columns=["label"])["label"].to_pylist())
    return probe(vectors, labels, *tenths(len(labels), 0))


def tenths(count: int, seed: int) -> list[np.ndarray]:
    """So many nodes in random order: a tenth to train, another to validate, and all others to test."""
    nodes, tenth = np.random.default_rng(seed).permutation(count), count // 10
    return [nodes[:tenth], nodes[tenth : 2 * tenth], nodes[2 * tenth :]]


def probe(vectors: np.ndarray, labels: np.ndarray, train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> float:
    """The accuracy of the logistic regression that judges all, in percent."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    rows = StandardScaler().fit(vectors[train]).transform(vectors)
    # Such small products take twenty times as long by many threads, where others compute beside them.
    with threadpool_limits(1):
        fitted = [LogisticRegression(C=penalty, max_iter=200).fit(rows[train], labels[train]) for penalty in PENALTIES]
        best = max(fitted, key=lambda each: each.score(rows[validation], labels[validation]))
        return 100 * best.score(rows[test], labels[test])


def embed_command(folder: Path, effort: str, dimension: int, device: str) -> list[str]:
    """``clnr embed`` of the tables in a folder, to a folder in it."""
    tables = ["--edges", str(folder / "edges.parquet"), "--nodes", str(folder / "nodes.parquet"), "--label", "label"]
    asked = ["--set", f"dimension={dimension}", "--set", f"device={device}", "--no-report", "--force", "--json"]
    return [sys.executable, "-m", "clnr", "embed", *tables, "--out", str(folder / effort), "--effort", effort, *asked]


def vectors_of(folder: Path, who: str) -> np.ndarray:
    """What one of them has written, by the rows of the node table."""
    import pyarrow.parquet as pq

    if who not in EFFORTS:
        return np.load(folder / f"{who}.npy")
    table, nodes = (pq.read_table(folder / name) for name in (f"{who}/embeddings.parquet", "nodes.parquet"))
    place = {name: row for row, name in enumerate(table["id"].to_pylist())}
    vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1)
    return vectors[[place[name] for name in nodes["id"].to_pylist()]]


@dataclass
class Row:
    """What one of them took on a graph: seconds of each turn, those of a cold one apart, and the last turn's stages."""

    graph: str
    who: str
    seconds: list[float] = field(default_factory=list)
    cold_seconds: float | None = None
    peak_bytes: int = 0
    accuracy: float | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    cold_stages: list[dict[str, Any]] = field(default_factory=list)
    failure: str | None = None

    def add(self, done: Finished, first: bool, cold: bool) -> None:
        """Another turn."""
        self.failure = done.failure
        if done.failure is not None:
            return
        self.peak_bytes = max(self.peak_bytes, done.peak)
        if not first:
            self.seconds.append(done.seconds)
            self.stages = stages_of(done.output)
        elif cold:
            self.cold_seconds, self.cold_stages = done.seconds, stages_of(done.output)

    def cells(self, torch_seconds: float) -> list[str]:
        """Its row of the table."""
        if self.failure is not None:
            return [self.graph, self.who, f"not measured: {self.failure}", *[""] * 4]
        cold = "" if self.cold_seconds is None else f"{self.cold_seconds:.1f}"
        middle = statistics.median(self.seconds)
        spread = f"{middle:.1f} ({min(self.seconds):.1f}-{max(self.seconds):.1f})"
        score = "" if self.accuracy is None else f"{self.accuracy:.1f}"
        return [self.graph, self.who, spread, f"{middle - torch_seconds:+.1f}", cold, f"{self.peak_bytes / 2**20:,.0f}", score]


def installed(python: str, packages: Iterable[str]) -> bool:
    """Whether a Python has some packages."""
    script = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
    return run([python, "-c", script, *packages], os.environ).failure is None


def taking_part(only: Sequence[str], python: str) -> dict[str, str]:
    """The Python of each that is asked for, by name."""
    pythons = dict.fromkeys(EFFORTS, sys.executable)
    pythons |= {who: sys.executable if rival.beside_clnr else python for who, rival in RIVALS.items()}
    names = list(only or pythons)
    if unknown := set(names) - set(pythons):
        raise ClnrError(f"--only takes some of {', '.join(pythons)}, not {', '.join(sorted(unknown))}")
    return {who: pythons[who] for who in names}


def compare(name: str, given: argparse.Namespace) -> list[Row]:
    """A row for each that takes part, on one graph."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        learned = write_tables(name, folder)
        words: dict[str, list[str]] = {}
        for who, python in taking_part(given.only, given.python).items():
            rows.append(Row(name, who))
            if who in EFFORTS:
                words[who] = embed_command(folder, who, given.dimension, given.device)
            elif installed(python, RIVALS[who].packages):
                asked = map(str, (given.dimension, given.node2vec_epochs))
                words[who] = [python, _rivals.__file__, who, str(folder), str(folder / f"{who}.npy"), *asked]
            else:
                rows[-1].failure = f"{python} has no {' or no '.join(RIVALS[who].packages)}"
        for turn in range(1 + given.turns):
            for row in rows:
                long = row.who in RIVALS and sum(row.seconds) > LONG_SECONDS
                if row.failure is not None or (turn and long):
                    continue
                caches = folder / "caches" / row.who if given.cold else None
                done = run(words[row.who], environment(given.device, caches), given.most_seconds)
                # What takes long is none the faster for a turn before.
                slow = row.who in RIVALS and done.seconds > LONG_SECONDS
                row.add(done, turn == 0 and not slow, given.cold)
        for row in rows:
            if learned and row.failure is None:
                row.accuracy = accuracy(folder, vectors_of(folder, row.who))
    return rows


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """A table in Markdown: so many columns of words, then columns of numbers."""
    rule = ["---"] * words + ["---:"] * (len(header) - words)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def stage_table(rows: Iterable[Row], cold: bool = False) -> str:
    """Seconds of each stage of clnr, a column for each run."""
    found = {f"{row.graph}, {row.who}": row.cold_stages if cold else row.stages for row in rows if row.stages}
    cells = {who: {each["stage"]: f"{each['seconds']:.2f}" for each in stages} for who, stages in found.items()}
    names = [name for name in STAGES if any(name in each for each in cells.values())]
    lines = [[name, *(each.get(name, "") for each in cells.values())] for name in names]
    return markdown([f"{'cold: ' if cold else ''}seconds", *found], lines, 1)


def import_seconds(turns: int) -> float:
    """What importing torch takes in a process of its own, warm."""
    times = [run([sys.executable, "-c", "import torch"], os.environ).seconds for _ in range(1 + turns)]
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"data sets, {', '.join(GENERATED)}, or a number of nodes")
    parser.add_argument("--dimension", type=positive, default=256)
    parser.add_argument("--node2vec-epochs", type=positive, default=5, metavar="N", help="PyG's example has 100")
    parser.add_argument("--turns", type=positive, default=3)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda, for all")
    parser.add_argument("--cold", action="store_true", help="begin with empty caches of compiled kernels")
    parser.add_argument("--only", type=lambda words: words.split(","), help=f"of {', '.join((*EFFORTS, *RIVALS))}; by commas")
    parser.add_argument("--python", default=sys.executable, help="the Python that has pycleora and GRAPE, if another one")
    parser.add_argument("--most-seconds", type=positive, default=900, help="of a process")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all that was measured as JSON")
    given = parser.parse_args()
    taking_part(given.only, given.python)
    torch_seconds = import_seconds(given.turns)
    about = machine()
    print(f"{', '.join(f'{name} {value}' for name, value in about.items())}; {datetime.now(UTC):%Y-%m-%d}")
    print(f"import torch: T = {torch_seconds:.1f} s; median (lowest-highest) of {given.turns} turn(s)\n")
    rows: list[Row] = []
    for name in given.names:
        rows += compare(name, given)
        print(f"{name} is done", file=sys.stderr, flush=True)
        if given.out is not None:
            asked = {name: getattr(given, name) for name in ("dimension", "node2vec_epochs", "device")}
            content = {"machine": about, "import_torch_seconds": torch_seconds, **asked, "rows": [asdict(row) for row in rows]}
            given.out.write_text(json.dumps(content, indent=1))
    header = ["graph", "", "seconds", "above T", "cold", "peak MiB", "accuracy %"]
    print(markdown(header, (row.cells(torch_seconds) for row in rows), 2))
    for cold in (False, True)[: 1 + given.cold]:
        print(f"\n{stage_table(rows, cold)}")
    failed = [row for row in rows if row.who in EFFORTS and row.failure is not None]
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    command(main)

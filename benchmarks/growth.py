"""The whole of ``clnr embed`` against the size of the graph: seconds, also of each stage, and the peak of memory.

    python -m benchmarks.growth --out growth.csv                      # 10,000, 30,000 and 100,000 nodes
    python -m benchmarks.growth --most 10e6 --out growth.csv --plot growth.png
    python -m benchmarks.growth --read growth.csv --plot growth.png   # the table and the picture again

Generated graphs with ten edges for each node and three columns, from two Parquet tables to vectors of 128 numbers, without a
report; each in a process of its own, after one that is not counted. In brackets stands how a time has grown since the size
before, as the exponent of the number of edges: 1 is linear. A stage that grows faster than the edges is marked with a star,
unless it takes next to nothing.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import command, positive
from benchmarks._processes import environment, machine, run, stages_of
from benchmarks.embed import EFFORTS, embed_command, markdown, write_tables
from clnr.errors import ClnrError
from clnr.support.stage_clock import STAGES

DIMENSION = 128
WHOLE = "in all"
# What exponent is no longer that of rounding and noise, and how many seconds are worth a star.
STEEP, WORTH_SECONDS = 1.1, 1.0
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")


class Measured(NamedTuple):
    """What a stage, or the whole process with its peak of memory, took on a graph."""

    effort: str
    nodes: int
    edges: int
    stage: str
    seconds: float
    peak_bytes: int = 0


def sizes(most: int) -> list[int]:
    """10,000, 30,000, 100,000 and so on."""
    return [first * 10**power for power in range(4, 12) for first in (1, 3) if first * 10**power <= most]


def measure(nodes: int, efforts: Iterable[str], device: str, warm_up: bool) -> Iterator[Measured]:
    """All stages of each effort on a graph of so many nodes."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_tables(str(nodes), folder)
        edges = pq.read_metadata(folder / "edges.parquet").num_rows
        for effort in efforts:
            words = embed_command(folder, effort, DIMENSION, device)
            for _ in range(1 + warm_up):
                done = run(words, environment(device))
            if done.failure is not None:
                raise ClnrError(f"{nodes:,} nodes, {effort}: {done.failure}")
            yield Measured(effort, nodes, edges, WHOLE, done.seconds, done.peak)
            for each in stages_of(done.output):
                yield Measured(effort, nodes, edges, each["stage"], each["seconds"])


def write(rows: Iterable[Measured], path: Path) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(Measured._fields)
        table.writerows(rows)


def read(path: Path) -> list[Measured]:
    with path.open(newline="") as file:
        rows = [Measured(**row) for row in csv.DictReader(file)]
    counts = ("nodes", "edges", "peak_bytes")
    numbers = [{name: int(getattr(row, name)) for name in counts} | {"seconds": float(row.seconds)} for row in rows]
    return [row._replace(**each) for row, each in zip(rows, numbers, strict=True)]


def exponent(before: Measured | None, now: Measured) -> float | None:
    """How the seconds of a stage grow with the edges; None where it was not there before."""
    if before is None or min(before.seconds, now.seconds) <= 0:
        return None
    return math.log(now.seconds / before.seconds) / math.log(now.edges / before.edges)


def is_steep(before: Measured | None, now: Measured) -> bool:
    """Whether a stage grows faster than the edges, and counts."""
    grown = exponent(before, now)
    return grown is not None and grown > STEEP and now.seconds >= WORTH_SECONDS


def table(rows: list[Measured], effort: str) -> str:
    """Seconds of each stage at each size and, in brackets, how they grow; and the peak of memory."""
    found = {(row.stage, row.nodes): row for row in rows if row.effort == effort}
    nodes = sorted({row.nodes for row in rows if row.effort == effort})
    lines = []
    for stage in (*(name for name in STAGES if any(key[0] == name for key in found)), WHOLE):
        cells, before = [stage], None
        for count in nodes:
            now = found.get((stage, count))
            cells.append("" if now is None else _cell(before, now))
            before = now
        lines.append(cells)
    peaks = [f"{found[WHOLE, count].peak_bytes / 2**20:,.0f}" for count in nodes]
    return markdown([f"{effort}, seconds", *(f"{count:,} nodes" for count in nodes)], [*lines, ["peak MiB", *peaks]], 1)


def _cell(before: Measured | None, now: Measured) -> str:
    grown = exponent(before, now)
    how = "" if grown is None else f" ({grown:.2f}{'*' if is_steep(before, now) else ''})"
    return f"{now.seconds:.2f}{how}"


def plot(rows: list[Measured], path: Path, title: str) -> None:
    """Seconds of each stage against nodes, a panel for each effort, and the peaks of memory."""
    from matplotlib import pyplot

    efforts = [effort for effort in EFFORTS if any(row.effort == effort for row in rows)]
    figure, axes = pyplot.subplots(1, 1 + len(efforts), figsize=(4 * (1 + len(efforts)), 3.6), constrained_layout=True)
    stages = [name for name in STAGES if any(row.stage == name and row.seconds >= 0.1 for row in rows)]
    for axis, effort in zip(axes, efforts, strict=False):
        for name in (*stages, WHOLE):
            line = sorted((row.nodes, row.seconds) for row in rows if (row.effort, row.stage) == (effort, name))
            place = stages.index(name) if name in stages else 0
            style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "marker": "os^v"[place // len(COLOURS)]}
            if name == WHOLE:
                style = {"color": "black", "linewidth": 2, "marker": "o"}
            axis.loglog(*zip(*line, strict=True), label=name, markersize=3, **style) if line else None
        axis.set(title=effort, xlabel="nodes", ylabel="seconds", ylim=(0.01, None))
        axis.legend(frameon=False, fontsize=6, ncols=2)
    for place, effort in enumerate(efforts):
        line = sorted((row.nodes, row.peak_bytes / 2**30) for row in rows if (row.effort, row.stage) == (effort, WHOLE))
        axes[-1].loglog(*zip(*line, strict=True), "o-", color=COLOURS[place], label=effort, markersize=3)
    axes[-1].set(title="memory", xlabel="nodes", ylabel="peak, GiB")
    axes[-1].legend(frameon=False, fontsize=7)
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.suptitle(textwrap.fill(title, 110), fontsize=7)
    figure.savefig(path, dpi=160)


def number(word: str) -> int:
    """A number such as 100000 or 1e6."""
    return positive(str(round(float(word))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=number, default=100_000, metavar="NODES")
    parser.add_argument("--efforts", nargs="+", choices=EFFORTS, default=EFFORTS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, metavar="CSV", help="write what is measured, also if it is stopped on the way")
    parser.add_argument("--read", type=Path, metavar="CSV", help="measure nothing, but read what was written")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it, as PNG or SVG")
    given = parser.parse_args()
    if given.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install matplotlib")
    rows: list[Measured] = []
    title = given.read.stem if given.read else ", ".join(f"{name} {value}" for name, value in machine().items())
    if given.read is not None:
        rows = read(given.read)
    for nodes in [] if given.read else sizes(given.most):
        for row in measure(nodes, given.efforts, given.device, warm_up=not rows):
            rows.append(row)
            if row.stage == WHOLE:
                print(f"{row.effort}, {nodes:,} nodes: {row.seconds:.1f} s", file=sys.stderr, flush=True)
        if given.out is not None:
            write(rows, given.out)
    print(f"{title}\n")
    for effort in [each for each in EFFORTS if any(row.effort == each for row in rows)]:
        print(f"{table(rows, effort)}\n")
    if given.plot is not None:
        plot(rows, given.plot, title)


if __name__ == "__main__":
    command(main)

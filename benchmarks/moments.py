"""Does it matter over which nodes the columns' moments are taken? CLNR with moments of all nodes and of the sampled ones.

    python -m benchmarks.moments                    # the seven data sets, if available, 20 seeds
    python -m benchmarks.moments cora cs --seeds 5

The same seeds, splits and recipes on both sides; ``strict`` accuracy, and alignment and uniformity of the embedding. The claim
is that the two are equivalent: by two one-sided t-tests on the seeds' differences, at 5 % with Holm's correction for the number
of data sets, the mean difference is within the margin: half a point of accuracy, or 0.05 of alignment and of uniformity.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence

import numpy as np
import torch
from scipy.stats import sem, t

from benchmarks import command, positive
from clnr import CLNR, datasets, recipe_for, runs
from clnr.engine import choose
from clnr.errors import DataError
from clnr.evaluation import holm
from clnr.support.machine import environment

SETS = ("cora", "citeseer", "pubmed", "photo", "computers", "cs", "physics")
MARGINS = {"strict": 0.5, "alignment": 0.05, "uniformity": 0.05}
MOMENTS = ("all", "sampled")

Values = dict[str, list[float]]


def measure(name: str, seeds: int, device: str, precision: str) -> dict[str, Values]:
    """For each kind of moments, each metric by seed."""
    graph, recipe = datasets.load(name), recipe_for(CLNR, name)
    found: dict[str, Values] = {}
    for moments in MOMENTS:
        made = list(runs(CLNR, graph, range(seeds), recipe=recipe.but(moments=moments), device=device, precision=precision))
        found[moments] = {metric: [getattr(run, metric) for run in made] for metric in MARGINS}
        print(json.dumps({"dataset": name, "moments": moments, **found[moments]}), flush=True)
    return found


def table(found: dict[str, dict[str, Values]]) -> str:
    """Means and spreads, differences, and whether they are equivalent, in Markdown."""
    lines = [f"| | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for metric, margin in MARGINS.items():
        differences = [
            [b - a for a, b in zip(*(of_set[kind][metric] for kind in MOMENTS), strict=True)] for of_set in found.values()
        ]
        places = 2 if metric == "strict" else 3
        for kind in MOMENTS:
            cells = [_spread(of_set[kind][metric], places) for of_set in found.values()]
            lines.append(f"| {metric}, {kind} | {' | '.join(cells)} |")
        lines.append(f"| difference | {' | '.join(f'{statistics.fmean(each):+.{places}f}' for each in differences)} |")
        corrected = holm([equivalence(each, margin) for each in differences])
        lines.append(f"| within {margin}, p | {' | '.join('< 0.001' if p < 0.001 else f'{p:.3f}' for p in corrected)} |")
    return "\n".join(lines)


def equivalence(differences: Sequence[float], margin: float) -> float:
    """The p-value of two one-sided t-tests (Schuirmann, 1987): small if the mean difference is surely within the margin.

    The null hypothesis is that it is ``margin`` or more away from zero, on either side. 1 for less than two differences.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return 1.0
    room, error = margin - abs(values.mean()), sem(values)
    if error == 0:
        return 0.0 if room > 0 else 1.0
    return float(t.sf(room / error, len(values) - 1))


def _spread(values: list[float], places: int) -> str:
    return f"{statistics.fmean(values):.{places}f} ± {statistics.pstdev(values):.{places}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=SETS)
    parser.add_argument("--seeds", type=positive, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    asked = parser.parse_args()
    engine, found = choose(asked.device, asked.precision), {}
    for name in asked.names:
        try:
            found[name] = measure(name, asked.seeds, asked.device, asked.precision)
        except DataError as error:
            print(f"{name}: no data: {error}", flush=True)
    print(f"{environment.describe(engine.device)}, {engine.precision}, torch {torch.__version__}, {asked.seeds} seeds")
    print(table(found))


if __name__ == "__main__":
    command(main)

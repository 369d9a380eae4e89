"""The paper's quantitative claims, and the test of each as contrasts of runs."""

from __future__ import annotations

import itertools
import math
import operator
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from clnr.methods import BGRL, CCA_SSG, CLNR, DCLNR, GCLNR, GRACE, MVGRL, NCLNR, RCLNR, Method
from reproduce import tables
from reproduce.figures import DIMENSIONS, FIVE_SETS, NOISES, SIX_SETS, circle_batch
from reproduce.record import CLUSTER_SCORES, SETS, Batch, Record, Run, batch
from reproduce.verdicts import Bounds, ClaimResult, Contrast, at_least, interval, reaches, within

MARGIN = 0.05
OTHERS = tuple(method for method in tables.SELF_SUPERVISED if method is not CLNR)

Test = Callable[[Record], ClaimResult]
# Of the run of a seed, or of its runs along a curve.
Measure = Callable[..., float]
# What is claimed to be larger for the first of two methods, and what to call it.
Side = tuple[Method, Method, Measure, str]
BatchesOf = Callable[[Method, str], Sequence[Batch]]
strict: Measure = operator.attrgetter("strict")


def tightness(run: Run) -> float:
    return -run.alignment


def evenness(run: Run) -> float:
    return -run.uniformity


def steadiness(*curve: Run) -> float:
    accuracies = tables.values(curve, "strict")
    return min(accuracies) - max(accuracies)


def under_noise(clean: Run, *noisy: Run) -> float:
    return tables.mean(noisy, "strict")


def kept_under_noise(clean: Run, *noisy: Run) -> float:
    return tables.mean(noisy, "strict") - clean.strict


def by_accuracy(better: Method, *others: Method, measure: Measure = strict) -> list[Side]:
    return [(better, other, measure, other.name) for other in others]


def by_geometry(better: Method, worse: Method) -> list[Side]:
    return [(better, worse, tightness, "alignment"), (better, worse, evenness, "uniformity")]


def but(*without: str, sets: Sequence[str] = SETS) -> list[str]:
    return [name for name in sets if name not in without]


def usual(method: Method, dataset: str) -> list[Batch]:
    return [batch(method, dataset)]


def contrasts(record: Record, sets: Iterable[str], sides: Iterable[Side], batches: BatchesOf = usual) -> list[Contrast]:
    """On each data set what is measured of two methods, by seed."""

    def by_seed(method: Method, dataset: str, measure: Measure) -> dict[int, float]:
        """For the seeds that all batches have, where it is finite."""
        runs = [record.seeds(each) for each in batches(method, dataset)]
        found = {seed: measure(*(each[seed] for each in runs)) for seed in set.intersection(*map(set, runs))}
        return {seed: value for seed, value in found.items() if math.isfinite(value)}

    return [
        Contrast(f"{what} on {tables.title_of(name)}", by_seed(better, name, measure), by_seed(worse, name, measure))
        for name, (better, worse, measure, what) in itertools.product(sets, sides)
    ]


def above(sets: Iterable[str], sides: Iterable[Side], on: int | None = None, batches: BatchesOf = usual) -> Test:
    """The first method of each side is above the second on all data sets; or, with all sides, on at least ``on``."""
    return lambda record: at_least(contrasts(record, sets, sides, batches), on)


def noise(measure: Measure) -> Test:
    sides = by_accuracy(CLNR, NCLNR, GRACE, CCA_SSG, measure=measure)
    return above(but("citeseer", sets=FIVE_SETS), sides, batches=NOISES.along)


def gain(goal: float) -> Test:
    """CLNR's accuracy minus GRACE's reaches a goal on some data set; a value that rounds to the goal reaches it."""

    def test(record: Record) -> ClaimResult:
        found = contrasts(record, SETS, by_accuracy(CLNR, GRACE))
        pairs = {each.what.removeprefix("GRACE on "): each.differences for each in found}
        bounds = {name: interval(each, len(SETS)) if len(each) > 1 else None for name, each in pairs.items()}
        return reaches(bounds, goal - 0.05, nothing=0)

    return test


def faster(goal: float, sets: Iterable[str]) -> Test:
    """GRACE's training time over CLNR's reaches a goal on some data set; bounds are by fastest and slowest seeds."""

    def ratio(record: Record, name: str) -> Bounds | None:
        ours, theirs = tables.seconds(record, name)
        if not (ours and theirs):
            return None
        return min(theirs) / max(ours), median(theirs) / median(ours), max(theirs) / min(ours)

    return lambda record: reaches({tables.title_of(name): ratio(record, name) for name in sets}, goal, nothing=1)


def like_none(method: Method) -> Test:
    """Alignment and uniformity of a method are as without postprocessing."""
    return lambda record: within(contrasts(record, SIX_SETS, by_geometry(NCLNR, method)), MARGIN)


def clusters(record: Record) -> ClaimResult:
    def score(method: Method, name: str) -> dict[int, float]:
        sign = -1 if name == "davies_bouldin" else 1
        runs = record.seeds(batch(method, "cora", extra="clusters"))
        return {seed: sign * float(run.extra_metrics["clusters"][name]) for seed, run in runs.items()}

    orders = dict.fromkeys(CLUSTER_SCORES, (CCA_SSG, CLNR, GRACE)) | {"silhouette": (CLNR, CCA_SSG, GRACE)}
    return at_least(
        [
            Contrast(f"{name.replace('_', '-')}: {one.name} before {other.name}", score(one, name), score(other, name))
            for name, order in orders.items()
            for one, other in itertools.pairwise(order)
        ]
    )


# By their numbers in claims.toml.
_TESTS: dict[str, Test] = {
    "1": above(but("photo"), by_accuracy(CLNR, GRACE)),
    "2": gain(1.5),
    "3": gain(1.4),
    "4": above(SETS, by_accuracy(CLNR, *OTHERS), on=6),
    "5": above(but("citeseer"), by_accuracy(CLNR, *OTHERS), on=7),
    "6": above(but("citeseer", "photo"), by_accuracy(CLNR, *OTHERS), on=6),
    "7": above(("citeseer",), by_accuracy(MVGRL, CLNR)),
    "8": above(but("physics", "ogbn-arxiv"), by_accuracy(CLNR, *tables.SUPERVISED)),
    "9": above(but("computers", "ogbn-arxiv"), by_accuracy(CCA_SSG, BGRL)),
    "10": faster(20, tables.TIMED_SETS),
    "11": faster(18.2, ("photo",)),
    "12": above(
        ("cora",),
        [(CLNR, GRACE, evenness, "uniformity")],
        batches=lambda method, _: [circle_batch(method)],
    ),
    "13": above(SIX_SETS, by_geometry(CLNR, NCLNR), on=5),
    "14": above(
        but("photo", sets=SIX_SETS),
        [(GRACE, NCLNR, tightness, "alignment gained"), (NCLNR, GRACE, evenness, "uniformity lost")],
    ),
    "15": above(("photo",), by_geometry(GRACE, NCLNR)),
    "16": above(
        SIX_SETS,
        [
            (GCLNR, CLNR, tightness, "alignment below CLNR's"),
            (GRACE, GCLNR, tightness, "alignment above GRACE's"),
            (CLNR, GCLNR, evenness, "uniformity above CLNR's"),
            (GCLNR, GRACE, evenness, "uniformity below GRACE's"),
        ],
    ),
    "17": like_none(RCLNR),
    "18": like_none(DCLNR),
    "19": above(FIVE_SETS, by_accuracy(CLNR, NCLNR, CCA_SSG, measure=steadiness), batches=DIMENSIONS.along),
    "20": noise(under_noise),
    "21": noise(kept_under_noise),
    "22": clusters,
}


class Claim(NamedTuple):
    """A claim of the paper: what it says in short and where, how it is tested and on which runs, and the test itself.

    ``effect`` is what is measured, for the axis of its picture; ``aside`` is worth knowing whatever the verdict is.
    """

    section: str
    says: str
    tested: str
    test: Test
    effect: str
    aside: str = ""


_WORDS = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
CLAIMS = tuple(Claim(test=_TESTS[number], **words) for number, words in _WORDS["claims"].items())
HOW_TESTED: list[str] = _WORDS["how_tested"]

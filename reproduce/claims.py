"""The paper's quantitative claims, and the test of each as contrasts of runs."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple

from clnr.methods import BGRL, CCA_SSG, CLNR, DCLNR, GCLNR, GRACE, MVGRL, NCLNR, RCLNR, Method
from reproduce import tables
from reproduce.figures import DIMENSIONS, FIVE_SETS, NOISES, SIX_SETS, circle_batch
from reproduce.record import SETS, Batch, Record, Run, batch
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
        sides = [(CLNR, GRACE, strict, "GRACE")]
        pairs = {each.what.removeprefix("GRACE on "): each.differences for each in contrasts(record, SETS, sides)}
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

    orders = dict.fromkeys(tables.SCORES, (CCA_SSG, CLNR, GRACE)) | {"silhouette": (CLNR, CCA_SSG, GRACE)}
    return at_least(
        [
            Contrast(f"{name.replace('_', '-')}: {one.name} before {other.name}", score(one, name), score(other, name))
            for name, order in orders.items()
            for one, other in itertools.pairwise(order)
        ]
    )


class Claim(NamedTuple):
    """A claim of the paper: what it says in short and where, how it is tested and on which runs, and the test itself.

    ``effect`` is what is measured, for the axis of its picture; ``aside`` is worth knowing whatever the verdict is.
    """

    says: str
    tested: str
    test: Test
    effect: str
    aside: str = ""


_BY_SEEDS = "strict accuracy, same seeds; holds if every difference does"
_PLANE = "figure 2's runs; lower is better for both, and a positive difference is a gain"
_LESS_GRACE = "points of accuracy, CLNR less GRACE"
_LESS_OTHER = "points of accuracy, CLNR less the other"
_GAIN = "gain"

CLAIMS = (
    Claim(
        "CLNR is above GRACE on all data sets but Photo (section 3)",
        _BY_SEEDS,
        above(but("photo"), by_accuracy(CLNR, GRACE)),
        _LESS_GRACE,
    ),
    Claim(
        "CLNR is above GRACE by up to 1.5 points (the text)",
        "strict accuracy, same seeds: 1.5, after rounding, lies within or below the 95 % interval of the largest mean "
        "difference, corrected for the number of data sets",
        gain(1.5),
        _LESS_GRACE,
        "The largest difference in the paper's own table is 1.4, on PubMed: 83.0 and 81.6.",
    ),
    Claim("CLNR is above GRACE by up to 1.4 points (its own table)", "the same with 1.4", gain(1.4), _LESS_GRACE),
    Claim(
        "CLNR is the best self-supervised method on 6 of 8 data sets (abstract)",
        "strict accuracy of CLNR minus that of each other method, all significant on at least 6",
        above(SETS, by_accuracy(CLNR, *OTHERS), on=6),
        _LESS_OTHER,
        "The paper compares means; here each lead must be larger than the spread over seeds explains.",
    ),
    Claim(
        "CLNR is above every other self-supervised method on all data sets but CiteSeer (the text)",
        "the same on all 7",
        above(but("citeseer"), by_accuracy(CLNR, *OTHERS), on=7),
        _LESS_OTHER,
        "On Photo the paper's own table has GRACE above CLNR.",
    ),
    Claim(
        "CLNR is above every other self-supervised method on all but CiteSeer and Photo (its own table)",
        "the same on all 6",
        above(but("citeseer", "photo"), by_accuracy(CLNR, *OTHERS), on=6),
        _LESS_OTHER,
    ),
    Claim(
        "MVGRL is above CLNR on CiteSeer (section 3)",
        _BY_SEEDS,
        above(("citeseer",), by_accuracy(MVGRL, CLNR)),
        "points of accuracy, MVGRL less CLNR",
    ),
    Claim(
        "CLNR is above supervised GCN and GAT on all data sets but Physics and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("physics", "ogbn-arxiv"), by_accuracy(CLNR, *tables.SUPERVISED)),
        _LESS_OTHER,
        "The paper does not say how its GCN and GAT were trained. Ours stop early, by the loss on validation nodes.",
    ),
    Claim(
        "CCA-SSG is above BGRL on all data sets but Computers and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("computers", "ogbn-arxiv"), by_accuracy(CCA_SSG, BGRL)),
        "points of accuracy, CCA-SSG less BGRL",
    ),
    Claim(
        "CLNR trains up to 20 times faster than GRACE (the text)",
        "table 3's runs, each made alone: 20 lies within or below the bounds of the largest ratio, which are GRACE's fastest "
        "seed to CLNR's slowest, and the reverse",
        faster(20, tables.TIMED_SETS),
        "GRACE's time over CLNR's",
        "Most of it is epochs. On Photo GRACE has 1,000 and CLNR 100: were an epoch of both the same, the ratio would be 10.",
    ),
    Claim(
        "CLNR trains 18.2 times faster than GRACE on Photo (its own table)",
        "the same with 18.2 on Photo",
        faster(18.2, ("photo",)),
        "GRACE's time over CLNR's",
    ),
    Claim(
        "in two dimensions on Cora, CLNR is significantly more uniform than GRACE (figure 1)",
        "figure 1's runs, same seeds: uniformity",
        above(("cora",), [(CLNR, GRACE, evenness, "uniformity")], batches=lambda method, _: [circle_batch(method)]),
        "uniformity, GRACE's less CLNR's",
        "The paper draws one run of each.",
    ),
    Claim(
        "column-wise postprocessing improves both alignment and uniformity on 5 of 6 data sets (section 4)",
        f"CLNR against nCLNR, {_PLANE}",
        above(SIX_SETS, by_geometry(CLNR, NCLNR), on=5),
        _GAIN,
    ),
    Claim(
        "row-wise postprocessing gains alignment and loses uniformity, but on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        above(
            but("photo", sets=SIX_SETS),
            [(GRACE, NCLNR, tightness, "alignment gained"), (NCLNR, GRACE, evenness, "uniformity lost")],
        ),
        "gain of alignment, loss of uniformity",
    ),
    Claim(
        "row-wise postprocessing gains both on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        above(("photo",), by_geometry(GRACE, NCLNR)),
        _GAIN,
    ),
    Claim(
        "GCLNR lies between CLNR and GRACE (section 4)",
        f"both metrics, {_PLANE}",
        above(
            SIX_SETS,
            [
                (GCLNR, CLNR, tightness, "alignment below CLNR's"),
                (GRACE, GCLNR, tightness, "alignment above GRACE's"),
                (CLNR, GCLNR, evenness, "uniformity above CLNR's"),
                (GCLNR, GRACE, evenness, "uniformity below GRACE's"),
            ],
        ),
        "how far it is on the right side",
    ),
    Claim(
        "surprisingly, dCLNR is like nCLNR in both (section 4): as the authors ran it, rCLNR",
        f"95 % intervals of the differences, corrected for their number, lie within {MARGIN:g} of zero",
        like_none(RCLNR),
        "difference from nCLNR",
        "As it was run, it divides all columns by one number: a covariance of 1 x 1. No wonder, then.",
    ),
    Claim(
        "true whitening, dCLNR, is like nCLNR in both, as section 4 says",
        "the same",
        like_none(DCLNR),
        "difference from nCLNR",
    ),
    Claim(
        "CLNR is more stable across dimensions than nCLNR and CCA-SSG (section 5)",
        "figure 3's runs: for each seed the range of strict accuracy over dimensions, theirs minus CLNR's",
        above(FIVE_SETS, by_accuracy(CLNR, NCLNR, CCA_SSG, measure=steadiness), batches=DIMENSIONS.along),
        "range of accuracy, the other's less CLNR's",
    ),
    Claim(
        "under edge noise, CLNR is above nCLNR, GRACE and CCA-SSG on all data sets but CiteSeer (section 5)",
        "figure 4's runs: for each seed the mean strict accuracy over noise levels above 0, CLNR's minus theirs",
        noise(under_noise),
        _LESS_OTHER,
    ),
    Claim(
        "CLNR is the most robust to edge noise (section 5, by its title)",
        "the same runs: for each seed the accuracy without noise minus that mean, theirs minus CLNR's",
        noise(kept_under_noise),
        "points lost to noise, the other's less CLNR's",
    ),
    Claim(
        "on Cora, CLNR has the best silhouette, CCA-SSG the best two other scores, GRACE is behind CLNR (appendix B)",
        "table 6's runs: silhouette, Davies-Bouldin and Calinski-Harabasz, each two neighbours in the order",
        clusters,
        "by how much it is before the next",
        "The Calinski-Harabasz score grows with the number of nodes. Ours is of all 2,708; the paper's would fit 1,000.",
    ),
)
# How many claims stand below each heading.
SECTIONS = {"Accuracy": 9, "Training time": 2, "Alignment and uniformity": 7, "Dimensions, noise and clusters": 4}

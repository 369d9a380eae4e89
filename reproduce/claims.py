"""The paper's quantitative claims, and the test of each as contrasts of runs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from clnr import methods
from clnr.methods import CCA_SSG, CLNR, GRACE, NCLNR, Method
from reproduce import figures, tables
from reproduce.record import SETS, Batch, Record, Run, batch, title_of
from reproduce.verdicts import Bounds, ClaimResult, Contrast, at_least, everywhere, interval, reaches, within

MARGIN = 0.05
OTHER_METHODS = tuple(method for method in tables.SELF_SUPERVISED if method is not CLNR)

Test = Callable[[Record], ClaimResult]
Metric = Callable[[Run], float]
Reduce = Callable[[list[float]], float]
Side = tuple[Method, Method, Metric, str]


def strict(run: Run) -> float:
    return run.strict


def tightness(run: Run) -> float:
    return -run.alignment


def evenness(run: Run) -> float:
    return -run.uniformity


def but(*without: str) -> list[str]:
    return [name for name in SETS if name not in without]


def contrast(record: Record, what: str, larger: Batch, smaller: Batch, metric: Metric) -> Contrast:
    """A metric of two batches, where it is finite."""
    first, second = (
        {seed: value for seed, run in record.seeds(each).items() if math.isfinite(value := metric(run))}
        for each in (larger, smaller)
    )
    return Contrast(what, first, second)


def contrasts(record: Record, sets: Iterable[str], sides: Sequence[Side]) -> list[Contrast]:
    """On each data set: a metric that is claimed to be larger for the first of two methods, and what to call it."""
    return [
        contrast(record, f"{what} on {title_of(name)}", batch(better, name), batch(worse, name), metric)
        for name in sets
        for better, worse, metric, what in sides
    ]


def by_accuracy(better: Method, *others: Method) -> list[Side]:
    return [(better, other, strict, other.name) for other in others]


def by_geometry(better: Method, worse: Method) -> list[Side]:
    return [(better, worse, tightness, "alignment"), (better, worse, evenness, "uniformity")]


def above(sets: Iterable[str], sides: Sequence[Side], on: int | None = None) -> Test:
    """The first method of each side is above the second on all data sets; or, with all sides, on at least ``on`` of them."""

    def test(record: Record) -> ClaimResult:
        found = contrasts(record, sets, sides)
        return everywhere(found) if on is None else at_least(on, found, lambda what: what.rpartition(" on ")[2])

    return test


def gain(goal: float) -> Test:
    """CLNR's strict accuracy minus GRACE's reaches a goal on some data set; a value that rounds to the goal reaches it."""

    def test(record: Record) -> ClaimResult:
        pairs = {each.what[len("GRACE on ") :]: each.differences for each in contrasts(record, SETS, by_accuracy(CLNR, GRACE))}
        bounds = {name: interval(each, len(pairs)) if len(each) > 1 else None for name, each in pairs.items()}
        return reaches(bounds, goal - 0.05, nothing=0)

    return test


def faster(goal: float, sets: Iterable[str]) -> Test:
    """GRACE's training time over CLNR's reaches a goal on some data set; bounds are by the fastest and slowest seeds."""

    def ratio(record: Record, name: str) -> Bounds | None:
        ours, theirs = (tables.seconds(record.find(tables.time_batch(method, name))) for method in (CLNR, GRACE))
        if not (ours and theirs):
            return None
        middle = statistics.median(theirs) / statistics.median(ours)
        return min(theirs) / max(ours), middle, max(theirs) / min(ours)

    return lambda record: reaches({title_of(name): ratio(record, name) for name in sets}, goal, nothing=1)


def rounder(record: Record) -> ClaimResult:
    ours, theirs = (figures.circle_batch(method) for method in (CLNR, GRACE))
    return everywhere([contrast(record, "uniformity on Cora", ours, theirs, evenness)])


def like_none(method: Method) -> Test:
    """Alignment and uniformity of a method are as without postprocessing."""

    def test(record: Record) -> ClaimResult:
        found = contrasts(record, figures.SIX_SETS, by_geometry(NCLNR, method))
        return within({each.what: each.differences for each in found}, MARGIN)

    return test


def by_seed(record: Record, curves: figures.Curves, method: Method, dataset: str, reduce: Reduce) -> dict[int, float]:
    """What becomes of the strict accuracies of each seed along a curve, for the seeds that all its points have."""
    runs = [record.seeds(curves.batch(method, dataset, value)) for value in curves.values]
    return {seed: reduce([each[seed].strict for each in runs]) for seed in set.intersection(*map(set, runs))}


def less_sensitive(record: Record) -> ClaimResult:
    def width(method: Method, name: str) -> dict[int, float]:
        return by_seed(record, figures.DIMENSIONS, method, name, lambda values: max(values) - min(values))

    return everywhere(
        [
            Contrast(f"{other.name} on {title_of(name)}", width(other, name), width(CLNR, name))
            for name in figures.FIVE_SETS
            for other in (NCLNR, CCA_SSG)
        ]
    )


def under_noise(reduce: Reduce) -> Test:
    """CLNR is above the others in what becomes of accuracies without noise, then with more and more."""

    def test(record: Record) -> ClaimResult:
        found = []
        for name in (name for name in figures.FIVE_SETS if name != "citeseer"):
            for other in (NCLNR, GRACE, CCA_SSG):
                sides = (by_seed(record, figures.NOISES, method, name, reduce) for method in (CLNR, other))
                found.append(Contrast(f"{other.name} on {title_of(name)}", *sides))
        return everywhere(found)

    return test


def clusters(record: Record) -> ClaimResult:
    def score(name: str, sign: int) -> Metric:
        return lambda run: sign * float(run.extra_metrics["clusters"][name])

    orders = (
        ("silhouette", 1, (CLNR, CCA_SSG, GRACE)),
        ("davies_bouldin", -1, (CCA_SSG, CLNR, GRACE)),
        ("calinski_harabasz", 1, (CCA_SSG, CLNR, GRACE)),
    )
    found = []
    for name, sign, order in orders:
        for better, worse in itertools.pairwise(order):
            larger, smaller = (batch(method, "cora", extra="clusters") for method in (better, worse))
            what = f"{name.replace('_', '-')}: {better.name} before {worse.name}"
            found.append(contrast(record, what, larger, smaller, score(name, sign)))
    return everywhere(found)


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

_ACCURACY = (
    Claim(
        "CLNR is above GRACE on all data sets but Photo (section 3)",
        _BY_SEEDS,
        above(but("photo"), by_accuracy(methods.CLNR, methods.GRACE)),
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
        above(SETS, by_accuracy(methods.CLNR, *OTHER_METHODS), on=6),
        _LESS_OTHER,
        "The paper compares means; here each lead must be larger than the spread over seeds explains.",
    ),
    Claim(
        "CLNR is above every other self-supervised method on all data sets but CiteSeer (the text)",
        "the same on all 7",
        above(but("citeseer"), by_accuracy(methods.CLNR, *OTHER_METHODS), on=7),
        _LESS_OTHER,
        "On Photo the paper's own table has GRACE above CLNR.",
    ),
    Claim(
        "CLNR is above every other self-supervised method on all but CiteSeer and Photo (its own table)",
        "the same on all 6",
        above(but("citeseer", "photo"), by_accuracy(methods.CLNR, *OTHER_METHODS), on=6),
        _LESS_OTHER,
    ),
    Claim(
        "MVGRL is above CLNR on CiteSeer (section 3)",
        _BY_SEEDS,
        above(("citeseer",), by_accuracy(methods.MVGRL, methods.CLNR)),
        "points of accuracy, MVGRL less CLNR",
    ),
    Claim(
        "CLNR is above supervised GCN and GAT on all data sets but Physics and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("physics", "ogbn-arxiv"), by_accuracy(methods.CLNR, *tables.SUPERVISED)),
        _LESS_OTHER,
        "The paper does not say how its GCN and GAT were trained. Ours stop early, by the loss on validation nodes.",
    ),
    Claim(
        "CCA-SSG is above BGRL on all data sets but Computers and ogbn-arxiv (section 3)",
        _BY_SEEDS,
        above(but("computers", "ogbn-arxiv"), by_accuracy(methods.CCA_SSG, methods.BGRL)),
        "points of accuracy, CCA-SSG less BGRL",
    ),
)
_TIME = (
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
)
_GEOMETRY = (
    Claim(
        "in two dimensions on Cora, CLNR is significantly more uniform than GRACE (figure 1)",
        "figure 1's runs, same seeds: uniformity",
        rounder,
        "uniformity, GRACE's less CLNR's",
        "The paper draws one run of each.",
    ),
    Claim(
        "column-wise postprocessing improves both alignment and uniformity on 5 of 6 data sets (section 4)",
        f"CLNR against nCLNR, {_PLANE}",
        above(figures.SIX_SETS, by_geometry(methods.CLNR, methods.NCLNR), on=5),
        _GAIN,
    ),
    Claim(
        "row-wise postprocessing gains alignment and loses uniformity, but on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        above(
            [name for name in figures.SIX_SETS if name != "photo"],
            [
                (methods.GRACE, methods.NCLNR, tightness, "alignment gained"),
                (methods.NCLNR, methods.GRACE, evenness, "uniformity lost"),
            ],
        ),
        "gain of alignment, loss of uniformity",
    ),
    Claim(
        "row-wise postprocessing gains both on Photo (section 4)",
        f"GRACE against nCLNR, {_PLANE}",
        above(("photo",), by_geometry(methods.GRACE, methods.NCLNR)),
        _GAIN,
    ),
    Claim(
        "GCLNR lies between CLNR and GRACE (section 4)",
        f"both metrics, {_PLANE}",
        above(
            figures.SIX_SETS,
            [
                (methods.GCLNR, methods.CLNR, tightness, "alignment below CLNR's"),
                (methods.GRACE, methods.GCLNR, tightness, "alignment above GRACE's"),
                (methods.CLNR, methods.GCLNR, evenness, "uniformity above CLNR's"),
                (methods.GCLNR, methods.GRACE, evenness, "uniformity below GRACE's"),
            ],
        ),
        "how far it is on the right side",
    ),
    Claim(
        "surprisingly, dCLNR is like nCLNR in both (section 4): as the authors ran it, rCLNR",
        f"95 % intervals of the differences, corrected for their number, lie within {MARGIN:g} of zero",
        like_none(methods.RCLNR),
        "difference from nCLNR",
        "As it was run, it divides all columns by one number: a covariance of 1 x 1. No wonder, then.",
    ),
    Claim(
        "true whitening, dCLNR, is like nCLNR in both, as section 4 says",
        "the same",
        like_none(methods.DCLNR),
        "difference from nCLNR",
    ),
)
_ROBUSTNESS = (
    Claim(
        "CLNR is more stable across dimensions than nCLNR and CCA-SSG (section 5)",
        "figure 3's runs: for each seed the range of strict accuracy over dimensions, theirs minus CLNR's",
        less_sensitive,
        "range of accuracy, the other's less CLNR's",
    ),
    Claim(
        "under edge noise, CLNR is above nCLNR, GRACE and CCA-SSG on all data sets but CiteSeer (section 5)",
        "figure 4's runs: for each seed the mean strict accuracy over noise levels above 0, CLNR's minus theirs",
        under_noise(lambda values: statistics.fmean(values[1:])),
        _LESS_OTHER,
    ),
    Claim(
        "CLNR is the most robust to edge noise (section 5, by its title)",
        "the same runs: for each seed the accuracy without noise minus that mean, theirs minus CLNR's",
        under_noise(lambda values: statistics.fmean(values[1:]) - values[0]),
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
SECTIONS = {
    "Accuracy": _ACCURACY,
    "Training time": _TIME,
    "Alignment and uniformity": _GEOMETRY,
    "Dimensions, noise and clusters": _ROBUSTNESS,
}
CLAIMS = tuple(claim for section in SECTIONS.values() for claim in section)

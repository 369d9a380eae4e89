"""The tests of the paper's claims, as contrasts of runs."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable

from clnr import methods
from clnr.experiments.results import Run, Summary
from clnr.methods import Method
from reproduce import figures, result_tables
from reproduce.claim_verdicts import (
    Bounds,
    ClaimResult,
    Contrast,
    Metric,
    at_least,
    contrast,
    everywhere,
    interval,
    reaches,
    within,
)
from reproduce.paper_runs.run_index import ResultSet, title_of
from reproduce.paper_runs.scope import SETS, Batch, Scope

CLNR, NCLNR, GRACE, GCLNR, CCA_SSG = methods.CLNR, methods.NCLNR, methods.GRACE, methods.GCLNR, methods.CCA_SSG
MARGIN = 0.05
OTHER_METHODS = tuple(method for method in result_tables.SELF_SUPERVISED if method is not CLNR)

Test = Callable[[Scope, ResultSet], ClaimResult]


def tightness(run: Run) -> float:
    return -run.alignment


def evenness(run: Run) -> float:
    return -run.uniformity


def but(*without: str) -> list[str]:
    return [name for name in SETS if name not in without]


def _on(what: str, dataset: str) -> str:
    return f"{what} on {title_of(dataset)}"


def _data_set(what: str) -> str:
    """The data set in the name of a contrast."""
    return what.rpartition(" on ")[2]


Side = tuple[Method, Method, Metric, str]


def _contrasts(scope: Scope, results: ResultSet, sets: Iterable[str], sides: Iterable[Side]) -> list[Contrast]:
    """On each of some data sets: a metric that is claimed to be larger for the first of two methods, and what to call it."""
    return [
        contrast(results, _on(what, name), scope.batch(better, name), scope.batch(worse, name), metric)
        for name in scope.among(sets)
        for better, worse, metric, what in sides
    ]


def by_accuracy(better: Method, *others: Method) -> list[Side]:
    return [(better, other, lambda run: run.strict, other.name) for other in others]


def by_geometry(better: Method, worse: Method) -> list[Side]:
    return [(better, worse, tightness, "alignment"), (better, worse, evenness, "uniformity")]


def above(sets: Iterable[str], sides: Iterable[Side], on: int | None = None) -> Test:
    """The first method of each side is above the second on all data sets; or, with all sides, on at least ``on`` of them."""
    sets, sides = tuple(sets), tuple(sides)

    def test(scope: Scope, results: ResultSet) -> ClaimResult:
        contrasts = _contrasts(scope, results, sets, sides)
        return everywhere(contrasts) if on is None else at_least(on, contrasts, _data_set)

    return test


def gain(goal: float) -> Test:
    """CLNR's strict accuracy minus GRACE's reaches a goal on some data set; a value that rounds to the goal reaches it."""

    def test(scope: Scope, results: ResultSet) -> ClaimResult:
        contrasts = _contrasts(scope, results, SETS, by_accuracy(CLNR, GRACE))
        pairs = {_data_set(each.what): each.differences for each in contrasts}
        bounds = {name: interval(each, len(pairs)) if len(each) > 1 else None for name, each in pairs.items()}
        return reaches(bounds, goal - 0.05, nothing=0)

    return test


def faster(goal: float, sets: Iterable[str]) -> Test:
    """GRACE's training time over CLNR's reaches a goal on some data set; bounds are by the fastest and slowest seeds."""

    def test(scope: Scope, results: ResultSet) -> ClaimResult:
        ratios: dict[str, Bounds | None] = {}
        for name in scope.among(sets):
            summaries = [results.find(result_tables.time_batch(scope, method, name)) for method in (CLNR, GRACE)]
            known = [result_tables.seconds(each) for each in summaries if isinstance(each, Summary)]
            ratios[title_of(name)] = _ratio(*known) if len(known) == 2 else None
        return reaches(ratios, goal, nothing=1)

    return test


def _ratio(below: list[float], above: list[float]) -> Bounds:
    return min(above) / max(below), statistics.median(above) / statistics.median(below), max(above) / min(below)


def rounder(scope: Scope, results: ResultSet) -> ClaimResult:
    contrasts = []
    for name in scope.among(("cora",)):
        first, second = (figures.circle_batch(scope, method, name) for method in (CLNR, GRACE))
        contrasts.append(contrast(results, _on("uniformity", name), first, second, evenness))
    return everywhere(contrasts)


def like_none(method: Method) -> Test:
    """Alignment and uniformity of a method are as without postprocessing."""

    def test(scope: Scope, results: ResultSet) -> ClaimResult:
        contrasts = _contrasts(scope, results, figures.SIX_SETS, by_geometry(NCLNR, method))
        return within({each.what: each.differences for each in contrasts}, MARGIN)

    return test


def _ranges(results: ResultSet, batches: Iterable[Batch]) -> dict[int, float]:
    """By seed, the range of strict accuracy over several batches."""
    runs_by_seed = [results.run_index.seeds(batch) for batch in batches]
    seeds = set.intersection(*(set(each) for each in runs_by_seed))
    values = {seed: [each[seed].strict for each in runs_by_seed] for seed in seeds}
    return {seed: max(each) - min(each) for seed, each in values.items()}


def less_sensitive(scope: Scope, results: ResultSet) -> ClaimResult:
    def sensitivity(method: Method, name: str) -> dict[int, float]:
        return _ranges(results, [figures.dimension_batch(scope, method, name, each) for each in scope.some(figures.DIMENSIONS)])

    return everywhere(
        [
            Contrast(_on(other.name, name), sensitivity(other, name), sensitivity(CLNR, name))
            for name in scope.among(figures.FIVE_SETS)
            for other in (NCLNR, CCA_SSG)
        ]
    )


def _by_noise(scope: Scope, results: ResultSet, method: Method, name: str, lost: bool) -> dict[int, float]:
    """By seed, the mean strict accuracy over noise levels above 0; or, with ``lost``, the accuracy without noise minus it."""
    none, *levels = (results.run_index.seeds(figures.noise_batch(scope, method, name, p)) for p in scope.some(figures.NOISES))
    seeds = set.intersection(*(set(each) for each in (none, *levels)))
    means = {seed: statistics.fmean(each[seed].strict for each in levels) for seed in seeds}
    return {seed: none[seed].strict - value for seed, value in means.items()} if lost else means


def under_noise(lost: bool) -> Test:
    """CLNR is above the others under edge noise; or, with ``lost``, loses less accuracy."""

    def test(scope: Scope, results: ResultSet) -> ClaimResult:
        contrasts = []
        for name in scope.among(each for each in figures.FIVE_SETS if each != "citeseer"):
            for other in (NCLNR, GRACE, CCA_SSG):
                ours, theirs = (_by_noise(scope, results, method, name, lost) for method in (CLNR, other))
                contrasts.append(Contrast(_on(other.name, name), *((theirs, ours) if lost else (ours, theirs))))
        return everywhere(contrasts)

    return test


def clusters(scope: Scope, results: ResultSet) -> ClaimResult:
    def score(name: str, sign: int) -> Metric:
        return lambda run: sign * float(run.extra_metrics["clusters"][name])

    orders = (
        ("silhouette", 1, (CLNR, CCA_SSG, GRACE)),
        ("davies_bouldin", -1, (CCA_SSG, CLNR, GRACE)),
        ("calinski_harabasz", 1, (CCA_SSG, CLNR, GRACE)),
    )
    contrasts = []
    for name, sign, order in orders if scope.among(("cora",)) else ():
        for better, worse in itertools.pairwise(order):
            first, second = (scope.batch(method, "cora", extra_metrics=("clusters",)) for method in (better, worse))
            what = f"{name.replace('_', '-')}: {better.name} before {worse.name}"
            contrasts.append(contrast(results, what, first, second, score(name, sign)))
    return everywhere(contrasts)

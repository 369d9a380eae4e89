"""The paper's four figures: the runs that they need, and tables of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from clnr import methods
from clnr.experiments.results import Summary
from clnr.methods import Method
from reproduce.paper_runs.run_index import ResultSet, accuracy, title_of
from reproduce.paper_runs.scope import SEEDS, Batch, Scope
from reproduce.result_tables import OPTIMISTIC, count_of
from reproduce.table_format import Table, row

CIRCLED_METHODS = (methods.CLNR, methods.GRACE)
ABLATION = (methods.NCLNR, methods.CLNR, methods.DCLNR, methods.RCLNR, methods.GRACE, methods.GCLNR)
CURVE_METHODS = (methods.NCLNR, methods.CLNR, methods.GRACE, methods.CCA_SSG)

FIVE_SETS = ("cora", "citeseer", "pubmed", "computers", "photo")
SIX_SETS = (*FIVE_SETS, "physics")
DIMENSIONS = (64, 128, 256, 512)
NOISES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_FEW_SEEDS = 10

_OVER_SEEDS = "over {} seeds, or the number in brackets."
_NO_NUMBERS = "The paper prints no numbers for this figure."


def circle_batch(scope: Scope, method: Method, dataset: str) -> Batch:
    """Embeddings of two dimensions, with all nodes in the loss."""
    return scope.batch(method, dataset, _FEW_SEEDS, extra_metrics=("points",), dimension=2, sampled_nodes=0)


def circle_batches(scope: Scope) -> list[Batch]:
    return [circle_batch(scope, method, name) for name in scope.sets(("cora",)) for method in scope.lineup(CIRCLED_METHODS)]


def circle(scope: Scope, results: ResultSet) -> Table:
    """Figure 1: validation nodes on the circle."""
    rows = []
    for name in scope.sets(("cora",)):
        for method in scope.lineup(CIRCLED_METHODS):
            rows.append(row(method.name, title_of(name), *_geometry(results.find(circle_batch(scope, method, name)))))
    head = ("Method", "Data set", "Alignment", "Uniformity", "strict", "paper rule", "seeds")
    notes = (
        "Embeddings of two dimensions, trained with all nodes in the loss: validation nodes in two views unseen in training, "
        "after postprocessing and normalisation. The figure shows seed 0. Lower is better for alignment and uniformity. "
        + OPTIMISTIC,
        _NO_NUMBERS,
    )
    return Table("figure-1", "Figure 1. Validation nodes on the circle", head, (tuple(rows),), notes, text_columns=2)


def plane_batches(scope: Scope) -> list[Batch]:
    return [scope.batch(method, name) for method in scope.lineup(ABLATION) for name in scope.sets(SIX_SETS)]


def plane(scope: Scope, results: ResultSet) -> Table:
    """Figure 2: alignment against uniformity."""
    groups = []
    for name in scope.sets(SIX_SETS):
        summaries = {method.name: results.find(scope.batch(method, name)) for method in scope.lineup(ABLATION)}
        groups.append(tuple(row(title_of(name), method, *_geometry(summary)) for method, summary in summaries.items()))
    head = ("Data set", "Method", "Alignment", "Uniformity", "strict", "paper rule", "seeds")
    notes = (
        "Measured on validation nodes in two views unseen in training, after postprocessing and normalisation; lower is "
        "better for both. dCLNR is true whitening; rCLNR, one scale for all columns, is what the paper's authors ran as "
        "dCLNR. A number in brackets is an alignment beyond its panel. " + OPTIMISTIC,
        _NO_NUMBERS,
    )
    return Table("figure-2", "Figure 2. Alignment against uniformity", head, tuple(groups), notes, text_columns=2)


class Curves(NamedTuple):
    """A figure with a panel for each data set and a curve for each method: accuracy against a hyper-parameter.

    ``axis`` names what is varied, on a ``log_scale`` or not.
    """

    name: str
    title: str
    values: tuple[Any, ...]
    batch: Callable[[Scope, Method, str, Any], Batch]
    about: str
    axis: str
    log_scale: bool = False

    def batches(self, scope: Scope) -> list[Batch]:
        """The batches of all curves, one value after another."""
        pairs = [(method, name) for method in scope.lineup(CURVE_METHODS) for name in scope.sets(FIVE_SETS)]
        return [self.batch(scope, method, name, value) for value in scope.some(self.values) for method, name in pairs]

    def table(self, scope: Scope, results: ResultSet) -> Table:
        """A group of rows for each data set: the curve of each method under both protocols."""
        values, groups = scope.some(self.values), []
        for name in scope.sets(FIVE_SETS):
            rows = []
            for method in scope.lineup(CURVE_METHODS):
                batches = [self.batch(scope, method, name, value) for value in values]
                summaries = [(results.find(each), each.seeds) for each in batches]
                rows += [
                    row(title_of(name), method.name, title, *(accuracy(each, protocol, usual) for each, usual in summaries))
                    for protocol, title in (("strict", "strict"), ("paper", "paper rule"))
                ]
            groups.append(tuple(rows))
        notes = (f"Accuracy in percent against {self.about} {OPTIMISTIC}", _NO_NUMBERS)
        head = ("Data set", "Method", "Protocol", *(f"{each:g}" for each in values))
        return Table(self.name, self.title, head, tuple(groups), notes, text_columns=3)


def dimension_batch(scope: Scope, method: Method, dataset: str, dimension: int) -> Batch:
    return scope.batch(method, dataset, _FEW_SEEDS, dimension=dimension, hidden=dimension)


def noise_batch(scope: Scope, method: Method, dataset: str, noise: float) -> Batch:
    return scope.batch(method, dataset, edge_noise=noise)


DIMENSION_CURVES = Curves(
    *("figure-3", "Figure 3. Accuracy against dimension", DIMENSIONS, dimension_batch),
    f"the embedding dimension, which is also the hidden width; {_OVER_SEEDS.format(_FEW_SEEDS)}",
    axis="dimension",
    log_scale=True,
)
NOISE_CURVES = Curves(
    *("figure-4", "Figure 4. Accuracy against edge noise", NOISES, noise_batch),
    "p: for each edge, p random edges are added before training, different ones for each seed; the clean graph is embedded "
    f"and evaluated; {_OVER_SEEDS.format(SEEDS)}",
    axis="random edges added, per edge",
)


def _geometry(summary: Summary | str) -> list[str]:
    """Alignment, uniformity, both accuracies, and the number of seeds."""
    means = [summary if isinstance(summary, str) else f"{summary.mean(name):.3f}" for name in ("alignment", "uniformity")]
    return [*means, *(accuracy(summary, protocol) for protocol in ("strict", "paper")), count_of(summary)]

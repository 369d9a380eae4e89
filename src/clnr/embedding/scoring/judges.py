"""Choosing between vectors for a purpose, by labels of some nodes or by edges; never by test nodes or test edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clnr import rng
from clnr.datasets.splits import split_of
from clnr.embedding.defaults import LABELS, LINKS
from clnr.embedding.fit_settings import Settings
from clnr.embedding.scoring.baseline_comparison import NOISE
from clnr.embedding.scoring.samples import Labelled
from clnr.embedding.scoring.scores import cosines_of
from clnr.errors import DataError, option
from clnr.evaluation import HeldOutPairs, accuracy_error, auc_error, score_cosines
from clnr.evaluation.held_out import link_ends, renumbered
from clnr.evaluation.logistic_regression import drawn
from clnr.evaluation.ridge import leave_one_out
from clnr.graph import Graph
from clnr.graph.csr import Array

MOST_NODES = 10_000
"""The maximum number of labelled nodes used to choose."""
TOLD_NODES = 1_000
"""The maximum number of labelled nodes used for the note on what ``--for labels`` would choose."""


@dataclass(frozen=True, eq=False)
class Judge:
    """Compares vectors of ``nodes``, which are sorted.

    Attributes:
        outcome: What some vectors of the nodes achieve, item by item.
        score: The score of an outcome.
        error: The standard error of the difference of two scores.
        measure: The format of a sentence with two scores and the name of the second.
        counted: The number of nodes or edges behind the scores, in words.
    """

    nodes: Array
    outcome: Callable[[Tensor], Array]
    score: Callable[[Array], float]
    error: Callable[[Array, Array], float]
    measure: str
    counted: str

    def told(self, outcome: Array, other: Array, of_other: str) -> str:
        """Both scores in words."""
        return f"{self.measure.format(self.score(outcome), self.score(other), of_other)} on {self.counted}"

    def best(self, usual: Array, others: Mapping[Any, Array]) -> Any:
        """The key of the highest score, of those that are higher than the usual one by more than noise; None for none."""
        better = {
            key: self.score(each)
            for key, each in others.items()
            if self.score(each) - self.score(usual) > NOISE * self.error(each, usual)
        }
        return max(better, key=better.__getitem__, default=None)


def of_labels(nodes: Array, labels: Array) -> Judge:
    """Which nodes ridge regression classifies right that was fitted to all others: of training and validation nodes."""

    def outcome(vectors: Tensor) -> Array:
        return leave_one_out(vectors, torch.from_numpy(labels).to(vectors.device)).cpu().numpy()

    measure = "accuracy {:.1f} against {:.1f} % with {}, by cross-validation"
    return Judge(
        nodes, outcome, lambda right: 100 * float(right.mean()), accuracy_error, measure, f"{len(nodes):,} labelled nodes"
    )


def of_edges(links: HeldOutPairs) -> Judge:
    """How well cosines separate held-out edges from non-edges: the half of them that is not scored by."""
    nodes = link_ends(links)
    by_place = renumbered(links, nodes)

    def outcome(vectors: Tensor) -> Array:
        return cosines_of(vectors, by_place)

    measure, counted = "link AUC {:.3f} against {:.3f} with {},", f"{links.positives.shape[1]:,} other held-out edges"
    return Judge(nodes, outcome, lambda cosines: score_cosines(cosines)["auc"], auc_error, measure, counted)


Made = tuple[Judge | None, HeldOutPairs | None]
"""A judge, if there is one, and the held-out edges that are left to score by."""


def _by_labels(labelled: Labelled, links: HeldOutPairs | None, seed: int, most: int | None = None) -> Made:
    assert labelled.graph.labels is not None
    split = split_of(labelled.graph, seed)
    places = drawn(np.sort(np.concatenate([split.train, split.validation])), rng.key(seed, "judge"), most or MOST_NODES)
    _, labels = np.unique(labelled.graph.labels[places], return_inverse=True)
    return of_labels(labelled.nodes[places], labels.astype(np.int64)), links


def _by_edges(labelled: Labelled, links: HeldOutPairs | None, seed: int) -> Made:
    if links is None or links.positives.shape[1] < 2:
        raise DataError(f"{option('purpose', LINKS)} needs 2 held-out edges: the graph has too few edges or non-edges")
    chosen_by, scored_by = (
        links._replace(positives=links.positives[:, first::2], negatives=links.negatives[:, first::2]) for first in (1, 0)
    )
    return of_edges(chosen_by), scored_by


def _would_choose(labelled: Labelled, links: HeldOutPairs | None, seed: int) -> Made:
    """By some of the labels, if there are enough to split."""
    try:
        return (None, links) if labelled.graph.labels is None else _by_labels(labelled, links, seed, TOLD_NODES)
    except DataError:
        return None, links


class Purpose(NamedTuple):
    """A purpose: who chooses, in words, and how to make the judge from labelled nodes, held-out edges and a seed.

    If ``taken``, the choice is applied, else only reported. ``missing`` names what the judge lacks.
    """

    who: str
    judge: Callable[[Labelled, HeldOutPairs | None, int], Made]
    missing: Callable[[Settings, Graph], str] = lambda settings, graph: ""
    taken: bool = True


def _missing_labels(settings: Settings, graph: Graph) -> str:
    labels, column = option("purpose", LABELS), option("label", "COLUMN")
    needs = f"{labels} needs labels of some nodes: name their column of the node table: {column}"
    return needs if graph.labels is None else ""


def _missing_edges(settings: Settings, graph: Graph) -> str:
    needs = f"{option('purpose', LINKS)} needs held-out edges: leave out {option('hold_out', 0)}"
    return "" if settings.hold_out else needs


JUDGES: Mapping[str | None, Purpose] = {
    None: Purpose("", _would_choose, taken=False),
    LABELS: Purpose("labels", _by_labels, _missing_labels),
    LINKS: Purpose("edges", _by_edges, _missing_edges),
}


def check_purpose(settings: Settings, graph: Graph) -> None:
    """Fail if what a purpose chooses by is not there."""
    if missing := JUDGES[settings.purpose].missing(settings, graph):
        raise DataError(missing)


def settle(settings: Settings, judge: Judge, usual: Tensor, tried: Iterable[Tensor | None]) -> tuple[dict[str, Any], list[str]]:
    """The hyper-parameters to change, given the vectors of the default and of each that was tried; and a line that says so."""
    purpose, before = JUDGES[settings.purpose], judge.outcome(usual)
    outcomes = {number: judge.outcome(vectors) for number, vectors in enumerate(tried) if vectors is not None}
    best = judge.best(before, outcomes)
    if best is None:
        others = f"none of {len(outcomes)} alternatives is better by {NOISE:g} standard errors, on {judge.counted}"
        told = f"{option('purpose', settings.purpose)} keeps all columns: {others}"
        return {}, [told] if purpose.taken else []
    changes = settings.tried[best]
    values = ", ".join(f"{name}={value}" for name, value in changes.items())
    who = purpose.who if purpose.taken else f"{option('purpose', LABELS)} would"
    return changes, [f"{who} choose {values}: {judge.told(outcomes[best], before, 'all columns')}"]

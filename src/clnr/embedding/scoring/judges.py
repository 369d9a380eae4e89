"""Choosing between vectors for a purpose, by labels of some nodes or by edges; never by test nodes or test edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clnr import rng
from clnr.datasets.splits import split_of
from clnr.embedding.defaults import LABELS, LINKS
from clnr.embedding.fit_settings import Settings
from clnr.embedding.scoring.baseline_comparison import NOISE
from clnr.embedding.scoring.scores import Labelled, cosines_of
from clnr.errors import DataError, option
from clnr.evaluation import HeldOutPairs, accuracy_error, auc_error, score_cosines
from clnr.evaluation.held_out import link_ends, renumbered
from clnr.evaluation.logistic_regression import drawn
from clnr.evaluation.ridge import leave_one_out
from clnr.graph import Graph
from clnr.graph.csr import Array

MOST_NODES = 10_000
"""The maximum number of labelled nodes used to choose."""
MOST_NODES_OF_NOTE = 1_000
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

    def in_words(self, purpose: str | None, name: str, outcome: Array, other: Array, of_other: str) -> str:
        """What is chosen for a purpose, or would be by labels without one, in words with both scores."""
        who = {LABELS: "labels", LINKS: "edges", None: f"{option('purpose', LABELS)} would"}[purpose]
        scores = self.measure.format(self.score(outcome), self.score(other), of_other)
        return f"{who} choose {name}: {scores} on {self.counted}"

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

    measure, counted = "accuracy {:.1f} against {:.1f} % with {}, by cross-validation", f"{len(nodes):,} labelled nodes"
    return Judge(nodes, outcome, lambda right: 100 * float(right.mean()), accuracy_error, measure, counted)


def of_edges(links: HeldOutPairs) -> Judge:
    """How well cosines separate held-out edges from non-edges: the half of them that is not scored by."""
    nodes = link_ends(links)
    outcome = partial(cosines_of, links=renumbered(links, nodes))
    measure, counted = "link AUC {:.3f} against {:.3f} with {},", f"{links.positives.shape[1]:,} other held-out edges"
    return Judge(nodes, outcome, lambda cosines: score_cosines(cosines)["auc"], auc_error, measure, counted)


def judge_for(
    purpose: str | None, labelled: Labelled, links: HeldOutPairs | None, seed: int
) -> tuple[Judge | None, HeldOutPairs | None]:
    """What chooses for a purpose, and the held-out edges that are left to score by.

    Without a purpose it is what would choose by labels, by fewer of them; None if too few nodes have one.
    """
    if purpose == LINKS:
        if links is None or links.positives.shape[1] < 2:
            raise DataError(f"{option('purpose', LINKS)} needs 2 held-out edges: the graph has too few edges or non-edges")
        chosen_by, scored_by = (
            links._replace(positives=links.positives[:, first::2], negatives=links.negatives[:, first::2]) for first in (1, 0)
        )
        return of_edges(chosen_by), scored_by
    if purpose == LABELS:
        return _by_labels(labelled, seed, MOST_NODES), links
    try:
        return None if labelled.graph.labels is None else _by_labels(labelled, seed, MOST_NODES_OF_NOTE), links
    except DataError:
        return None, links


def _by_labels(labelled: Labelled, seed: int, most: int) -> Judge:
    assert labelled.graph.labels is not None
    split = split_of(labelled.graph, seed)
    places = drawn(np.sort(np.concatenate([split.train, split.validation])), rng.key(seed, "judge"), most)
    _, labels = np.unique(labelled.graph.labels[places], return_inverse=True)
    return of_labels(labelled.nodes[places], labels.astype(np.int64))


def check_purpose(settings: Settings, graph: Graph) -> None:
    """Fail if what a purpose chooses by is not there."""
    needs = f"{option('purpose', settings.purpose)} needs"
    if settings.purpose == LABELS and graph.labels is None:
        raise DataError(f"{needs} labels of some nodes: name their column of the node table: {option('label', 'COLUMN')}")
    if settings.purpose == LINKS and not settings.hold_out:
        raise DataError(f"{needs} held-out edges: leave out {option('hold_out', 0)}")


def settle(settings: Settings, judge: Judge, usual: Tensor, tried: Iterable[Tensor | None]) -> tuple[dict[str, Any], list[str]]:
    """The hyper-parameters to change, given the vectors of the default and of each that was tried; and a line on the choice.

    Without a purpose nothing is changed: the line says what would be.
    """
    purpose, before = settings.purpose, judge.outcome(usual)
    outcomes = {number: judge.outcome(vectors) for number, vectors in enumerate(tried) if vectors is not None}
    best = judge.best(before, outcomes)
    if best is None:
        kept = f"none of {len(outcomes)} alternatives is better by {NOISE:g} standard errors, on {judge.counted}"
        return {}, [] if purpose is None else [f"{option('purpose', purpose)} keeps all columns: {kept}"]
    changes = settings.tried[best]
    values = ", ".join(f"{name}={value}" for name, value in changes.items())
    line = judge.in_words(purpose, values, outcomes[best], before, "all columns")
    return {} if purpose is None else changes, [line]

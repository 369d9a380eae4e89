"""The scores of an embedding and of baselines beside it: by held-out edges and by labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from clnr.datasets.splits import split_of
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.scoring.samples import Labelled
from clnr.engine import unit_rows
from clnr.errors import ClnrError, DataError
from clnr.evaluation import (
    HeldOutPairs,
    accuracy_error,
    auc_error,
    link_cosines,
    logistic_probe,
    majority_accuracy,
    score_cosines,
)
from clnr.evaluation.class_scores import class_scores
from clnr.evaluation.logistic_regression import MOST_ITERATIONS, MOST_NODES
from clnr.graph import Graph, Split
from clnr.graph.csr import Array
from clnr.graph.kind_rows import sparse_unit
from clnr.methods import RAW, Method
from clnr.support.humanize import plural
from clnr.support.machine.memory import enough_memory
from clnr.support.stage_clock import stage

NO_LINKS = "no link scores: too few edges or non-edges to hold out"
FEW_TRAINED = 50
"""A probe that learned from fewer nodes says little of the vectors."""
_NOT_CONVERGED = f"the linear probe has not converged after {MOST_ITERATIONS:,} iterations: its accuracy may be too low"
# Of a probe that takes a minute at most, in each of its iterations.
_MOST_MULTIPLIED_NUMBERS = 5e8


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores by name, and what they were computed from, to compare them with others.

    ``cosines`` are of each held-out pair, then of each non-edge; ``correct`` says which test nodes were classified correctly;
    warnings are lines.
    """

    scores: dict[str, float]
    cosines: Array | None
    correct: Array | None
    warnings: tuple[str, ...] = ()

    def errors(self, other: Scored) -> dict[str, float]:
        """Standard errors of the differences between these scores and others on the same edges and nodes."""
        errors = {}
        if self.cosines is not None and other.cosines is not None:
            errors["link_auc_error"] = auc_error(self.cosines, other.cosines)
        if self.correct is not None and other.correct is not None:
            errors["strict_accuracy_error"] = accuracy_error(self.correct, other.correct)
        return errors


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores rows of the nodes of one graph by held-out edges and by labels with a split, of which either may be None."""

    links: HeldOutPairs | None
    labelled: tuple[Array, Split] | None
    seed: int
    device: torch.device | str = "cpu"

    @classmethod
    def of(
        cls, graph: Graph, links: HeldOutPairs | None, seed: int, by_labels: bool, device: torch.device | str = "cpu"
    ) -> Scorer:
        """The scorer of a graph, which computes on a device; a DataError says why its labels cannot be used."""
        if not by_labels or graph.labels is None:
            return cls(links, None, seed, device)
        split = split_of(graph, seed)
        if len(np.unique(graph.labels[split.train])) < 2:
            raise DataError("the training nodes are of one class")
        return cls(links, (graph.labels, split), seed, device)

    def score(self, cosines: Array | None, rows: Any | None, logits: bool = False) -> Scored:
        """Score an embedding.

        ``cosines`` are ``cosines_of`` rows of the graph without the held-out edges, ``rows`` those of the whole graph, None to
        score by edges alone; logits are those of a classifier, which needs no probe.
        """
        scores: dict[str, float] = {}
        if cosines is not None:
            scores |= {f"link_{name}": value for name, value in score_cosines(cosines).items()}
        if rows is None or self.labelled is None:
            return Scored(scores, cosines, None)
        (labels, split), warnings = self.labelled, tuple[str, ...]()
        if logits:
            guesses, test = rows.argmax(1), split.test
            right = guesses == labels
            classes, margins = np.arange(rows.shape[1]), rows[test, 1] - rows[test, 0]
            by_labels = class_scores(labels[test], guesses[test], classes, margins)
            validation, correct = 100 * float(right[split.validation].mean()), right[test]
        else:
            probe = logistic_probe(rows, labels, split, self.seed, self.device)
            by_labels, validation, correct = probe.scores, probe.validation, probe.correct
            warnings = () if probe.converged else (_NOT_CONVERGED,)
        scores |= {f"strict_{name}": value for name, value in by_labels.items()} | {"validation_accuracy": validation}
        return Scored(scores, cosines, correct, warnings)

    def is_quick(self, rows: Any) -> bool:
        """Whether a probe of these rows takes a minute at most: by the numbers multiplied in each of its iterations."""
        assert self.labelled is not None
        labels, split = self.labelled
        per_row = rows.nnz / rows.shape[0] if sp.issparse(rows) else rows.shape[1]
        return min(len(split.train), MOST_NODES) * per_row * len(np.unique(labels[split.train])) <= _MOST_MULTIPLIED_NUMBERS


def cosines_of(rows: Any, links: HeldOutPairs) -> Array:
    """``link_cosines`` of rows of any length, which were computed without the held-out edges."""
    if sp.issparse(rows):
        return link_cosines(sparse_unit(sp.csr_array(rows)), links)
    tensor = rows if isinstance(rows, torch.Tensor) else torch.tensor(rows)
    return link_cosines(unit_rows(tensor) if links.kinds is None else tensor, links)


class BaselineRows(NamedTuple):
    """``cosines_of`` the rows of a baseline without the held-out edges, and what makes those of the labelled nodes."""

    cosines: Array | None
    rows: Callable[[], Any]


class Scores(NamedTuple):
    """Scores by name; what a reader of them should know, a line each; and the scores of baselines, as ``Result`` has them."""

    scores: dict[str, float]
    warnings: tuple[str, ...]
    baselines: dict[str, dict[str, float]]


def score(
    labelled: Labelled,
    links: HeldOutPairs | None,
    model: FittedModel,
    cosines: Array | None,
    rows: Callable[[], Any],
    baselines: Mapping[Method, BaselineRows | ClnrError],
    settings: Settings,
) -> Scores:
    """Score an embedding, and baselines on the same edges and nodes.

    Args:
        labelled: The nodes whose labels it is scored by.
        links: Held-out pairs and non-edges; None for none.
        model: What made the embedding.
        cosines: ``cosines_of`` its rows without the held-out edges.
        rows: Makes the rows of the labelled nodes.
        baselines: What is scored beside it, or why it cannot be.
        settings: How the job is done.
    """
    warnings = [NO_LINKS] if settings.hold_out and links is None else []
    try:
        scorer = Scorer.of(labelled.graph, links, settings.seed, settings.evaluate, settings.engine.device)
    except DataError as error:
        warnings.append(f"no accuracy was measured: {error}")
        scorer = Scorer(links, None, settings.seed)
    if scorer.labelled is not None and (trained := len(scorer.labelled[1].train)) < FEW_TRAINED:
        tested = plural(len(scorer.labelled[1].test), "node")
        warnings.append(f"few labels: the probe was trained on {trained} and tested on {tested}, so its accuracy is uncertain")
    if scorer.labelled is not None and labelled.total > len(labelled.nodes):
        warnings.append(f"the accuracy is of {len(labelled.nodes):,} of {labelled.total:,} labelled nodes")
    with torch.no_grad():
        ours = scorer.score(cosines, rows() if scorer.labelled is not None else None, logits=model.method.supervised)
        majority = {} if scorer.labelled is None else {"majority_accuracy": majority_accuracy(*scorer.labelled)}
    held = {} if links is None else {"links_held_out": float(links.positives.shape[1])}
    with stage("baselines", whole=True):
        beside, skipped = _score_baselines(scorer, ours, baselines)
    return Scores(ours.scores | majority | held, (*warnings, *ours.warnings, *skipped), beside)


def _score_baselines(
    scorer: Scorer, ours: Scored, baselines: Mapping[Method, BaselineRows | ClnrError]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Scores of raw features and of each baseline; and what was left out, a line each."""
    scores: dict[str, dict[str, float]] = {}
    skipped: list[str] = []
    for baseline, made in baselines.items():
        try:
            if isinstance(made, ClnrError):
                raise made
            with enough_memory():
                rows = made.rows() if scorer.labelled is not None else None
                if baseline == RAW and rows is not None and not scorer.is_quick(rows):
                    columns = rows.shape[1]
                    skipped.append(f"the accuracy of raw features was not measured: {columns:,} columns take too long")
                    rows = None
                scored = scorer.score(made.cosines, rows)
        except ClnrError as error:
            skipped.append(f"{baseline.name} was not scored: {error}")
        else:
            scores[baseline.name] = scored.scores | scored.errors(ours)
    return scores, skipped

"""The scores of an embedding and of baselines beside it: by held-out edges and by labels, of all nodes or of a sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.scoring.baseline_comparison import score_warnings
from clnr.embedding.scoring.scoring import Scored, Scorer
from clnr.errors import ClnrError, DataError
from clnr.evaluation import LinkSplit
from clnr.graph import Graph
from clnr.methods import RAW, Method
from clnr.support.machine.memory import enough_memory

NO_LINKS = "too few edges, or too few pairs without an edge, to hold some out: no link scores"
_COLLAPSED_RANK = 1.5

BaselineRows = Callable[[bool], tuple[Any, Any]]
"""Rows of a baseline: those without the held-out edges and, if asked for, those of the labelled nodes, else None."""


class Scores(NamedTuple):
    """Scores by name; what a reader of them should know, a line each; and the scores of baselines, as ``Result`` has them."""

    scores: dict[str, float]
    warnings: tuple[str, ...]
    baselines: dict[str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class Samples:
    """What a graph is scored by: held-out pairs and labelled nodes, all or some of them, and their rows.

    Attributes:
        graph: The graph, in memory or in files.
        labelled: Has the labels to score by, and a split if the graph has one; without labels, none are scored by.
        links: Held-out pairs and non-edges, by the places of their nodes in ``seen``; None for none.
        seen: Rows that were computed without the held-out edges.
        rows: Rows of the nodes of ``labelled``.
        geometry: Alignment, uniformity and effective rank.
        width: How many columns rows have.
        baselines: What can be scored beside the embedding.
        no_baselines: Says why nothing can, if so.
        notes: What to know of the training, a line each.
        remarks: What the scores are of, a line each.
    """

    graph: Graph
    labelled: Graph
    links: LinkSplit | None
    seen: Callable[[], Any]
    rows: Callable[[], Any]
    geometry: Callable[[], dict[str, float]]
    width: int
    baselines: Mapping[Method, BaselineRows]
    no_baselines: str | None = None
    notes: list[str] = field(default_factory=list)
    remarks: Callable[[Scorer], list[str]] = lambda scorer: []


def score(samples: Samples, model: FittedModel, settings: Settings) -> Scores:
    """Score an embedding, and baselines on the same edges and nodes."""
    links, warnings = samples.links, [*samples.notes]
    if settings.hold_out and links is None:
        warnings.append(NO_LINKS)
    try:
        scorer = Scorer.of(samples.labelled, links, settings.seed, settings.evaluate)
    except DataError as error:
        warnings.append(f"no accuracy was measured: {error}")
        scorer = Scorer(links, None, None, settings.seed)
    with torch.no_grad():
        rows = samples.rows() if scorer.labels is not None else None
        own = scorer.score(samples.seen(), rows, logits=model.method.supervised)
        scores = own.scores | scorer.reference() | samples.geometry()
    if links is not None:
        scores["links_held_out"] = float(links.positives.shape[1])
    warnings += [*model.remarks(), *collapse_warnings(scores, samples.width)]
    baselines, skipped = _score_baselines(samples, model.method, scorer, own)
    warnings += [*own.warnings, *score_warnings(samples.graph, model.method, scores, baselines), *skipped]
    return Scores(scores, (*warnings, *samples.remarks(scorer)), baselines)


def collapse_warnings(scores: Mapping[str, float], width: int) -> list[str]:
    """A line if an embedding of so many columns uses hardly more than one dimension."""
    if scores["effective_rank"] >= _COLLAPSED_RANK or width < 2:
        return []
    return ["the embedding has collapsed: it uses hardly more than one dimension, so nodes are hardly told apart"]


def _score_baselines(
    samples: Samples, method: Method, scorer: Scorer, own: Scored
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Scores of raw features and of each baseline; and what was left out, a line each."""
    scores: dict[str, dict[str, float]] = {}
    skipped: list[str] = []
    if not (samples.baselines and scorer.scores_anything):
        return scores, skipped
    if samples.no_baselines is not None:
        return scores, [samples.no_baselines]
    for baseline, rows_of in samples.baselines.items():
        if baseline == method:
            continue
        try:
            with enough_memory():
                seen, rows = rows_of(scorer.labels is not None)
                if baseline == RAW and rows is not None and not scorer.is_quick(rows):
                    columns = samples.graph.num_features
                    skipped.append(f"the accuracy of raw features was not measured: {columns:,} columns take too long")
                    rows = None
                scored = scorer.score(seen, rows)
        except ClnrError as error:
            skipped.append(f"{baseline.name} was not scored: {error}")
        else:
            scores[baseline.name] = scored.scores | scored.errors(own)
    return scores, skipped

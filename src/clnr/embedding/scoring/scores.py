"""The scores of an embedding and of baselines beside it: by held-out edges, by labels of nodes, and by their geometry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from clnr import evaluation, rng
from clnr.datasets.splits import split_of
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.graph_facts import sample_nodes
from clnr.engine import unit_rows
from clnr.errors import ClnrError, DataError
from clnr.evaluation import HeldOutPairs, geometry
from clnr.evaluation.class_scores import class_scores
from clnr.evaluation.logistic_regression import MOST_ITERATIONS, MOST_NODES
from clnr.evaluation.metrics import fresh_views
from clnr.graph import Graph, Split
from clnr.graph.csr import Array
from clnr.graph.kind_rows import sparse_unit
from clnr.methods import RAW, Method
from clnr.support.humanize import plural
from clnr.support.machine.memory import enough_memory
from clnr.support.stage_clock import stage

if TYPE_CHECKING:
    from clnr.engine import DeviceGraph, Engine

MOST_LABELLED = 50_000
"""The labelled nodes of a larger graph are a sample of so many."""
NO_LINKS = "no link scores: too few edges or non-edges to hold out"
FEW_TRAINED = 50
"""A probe that learned from fewer nodes says little of the vectors."""
_NOT_CONVERGED = f"the linear probe has not converged after {MOST_ITERATIONS:,} iterations: its accuracy may be too low"
# Of a probe that takes a minute at most, in each of its iterations.
_MOST_MULTIPLIED_NUMBERS = 5e8
# Nodes, drawn uniformly, that stand for all: in the effective rank, and in alignment and uniformity.
_RANKED_NODES, _ALIGNED_NODES = 5_000, 2_048
# Labels that are read at a time.
_BLOCK_LABELS = 1 << 22


class Labelled(NamedTuple):
    """Nodes whose labels an embedding is scored by.

    ``graph`` has nothing but their labels and, if it is published, the split; ``total`` nodes are labelled.
    """

    nodes: Array
    graph: Graph
    total: int


def labelled_nodes(graph: Graph, seed: int) -> Labelled:
    """The nodes to score by: all, or of a large graph a sample of those with a label, which are read in parts."""
    if graph.labels is None:
        return Labelled(np.empty(0, np.int64), _labels_alone(graph, None), 0)
    if graph.num_nodes <= MOST_LABELLED or graph.split is not None:
        labels = np.asarray(graph.check_labels(graph.labels[:]), np.int64)
        alone = replace(_labels_alone(graph, labels), split=graph.split)
        return Labelled(np.arange(graph.num_nodes), alone, int((labels >= 0).sum()))
    sample, total = np.empty(0, np.int64), 0
    for start in range(0, graph.num_nodes, _BLOCK_LABELS):
        nodes = start + np.flatnonzero(graph.check_labels(graph.labels[start : start + _BLOCK_LABELS], start) >= 0)
        total += len(nodes)
        # Of all labelled nodes, those with the smallest draws: the same sample, however labels are read.
        candidates = np.concatenate([sample, nodes])
        draws = rng.draw(rng.key(seed, "labelled"), torch.from_numpy(candidates)).numpy()
        sample = candidates[np.argsort(draws, kind="stable")[:MOST_LABELLED]]
    nodes = np.sort(sample)
    return Labelled(nodes, _labels_alone(graph, np.asarray(graph.labels[nodes], np.int64)), total)


def _labels_alone(graph: Graph, labels: Array | None) -> Graph:
    count = 0 if labels is None else len(labels)
    return Graph.from_edges([], [], np.zeros((count, 0), np.float32), labels=labels, name=graph.name)


def cosines_of(rows: Any, links: HeldOutPairs) -> Array:
    """``link_cosines`` of rows of any length, which were computed without the held-out edges."""
    if sp.issparse(rows):
        return evaluation.link_cosines(sparse_unit(sp.csr_array(rows)), links)
    tensor = rows if isinstance(rows, torch.Tensor) else torch.tensor(rows)
    return evaluation.link_cosines(unit_rows(tensor) if links.kinds is None else tensor, links)


class Scored(NamedTuple):
    """Scores by name, and what they were computed from, to compare them with others.

    ``cosines`` are of each held-out pair, then of each non-edge; ``correct`` says which test nodes were classified correctly.
    ``converged`` is False of a probe that has not.
    """

    scores: dict[str, float]
    cosines: Array | None = None
    correct: Array | None = None
    converged: bool = True

    def errors(self, other: Scored) -> dict[str, float]:
        """Standard errors of the differences between these scores and others on the same edges and nodes."""
        errors = {}
        if self.cosines is not None and other.cosines is not None:
            errors["link_auc_error"] = evaluation.auc_error(self.cosines, other.cosines)
        if self.correct is not None and other.correct is not None:
            errors["strict_accuracy_error"] = evaluation.accuracy_error(self.correct, other.correct)
        return errors


class Truth(NamedTuple):
    """The labels of nodes with their split, and what else decides a probe of their rows."""

    labels: Array
    split: Split
    seed: int
    device: torch.device | str

    @classmethod
    def of(cls, graph: Graph, settings: Settings) -> Truth | None:
        """That of a graph, None if it is not scored by labels; a DataError says why they cannot be used."""
        if not settings.evaluate or graph.labels is None:
            return None
        split = split_of(graph, settings.seed)
        if len(np.unique(graph.labels[split.train])) < 2:
            raise DataError("the training nodes are of one class")
        return cls(graph.labels, split, settings.seed, settings.engine.device)

    def is_quick(self, rows: Any) -> bool:
        """Whether a probe of these rows takes a minute at most: by the numbers multiplied in each of its iterations."""
        train = self.split.train
        per_row = rows.nnz / rows.shape[0] if sp.issparse(rows) else rows.shape[1]
        return min(len(train), MOST_NODES) * per_row * len(np.unique(self.labels[train])) <= _MOST_MULTIPLIED_NUMBERS


def scored(cosines: Array | None, truth: Truth | None = None, rows: Any = None, logits: bool = False) -> Scored:
    """Score an embedding.

    ``cosines`` are ``cosines_of`` rows of the graph without the held-out edges; ``rows`` are those of the whole graph, None to
    score by edges alone. Logits are those of a classifier, which needs no probe.
    """
    scores: dict[str, float] = {}
    if cosines is not None:
        scores |= {f"link_{name}": value for name, value in evaluation.score_cosines(cosines).items()}
    if rows is None or truth is None:
        return Scored(scores, cosines)
    labels, split, seed, device = truth
    if logits:
        guesses, test, converged = rows.argmax(1), split.test, True
        right = guesses == labels
        classes, margins = np.arange(rows.shape[1]), rows[test, 1] - rows[test, 0]
        by_labels = class_scores(labels[test], guesses[test], classes, margins)
        validation, correct = 100 * float(right[split.validation].mean()), right[test]
    else:
        probe = evaluation.logistic_probe(rows, labels, split, seed, device)
        by_labels, validation, correct, converged = probe.scores, probe.validation, probe.correct, probe.converged
    scores |= {f"strict_{name}": value for name, value in by_labels.items()} | {"validation_accuracy": validation}
    return Scored(scores, cosines, correct, converged)


BaselineRows = tuple[Array | None, Callable[[], Any]] | ClnrError
"""``cosines_of`` the rows of a baseline without the held-out edges, and what makes those of labelled nodes; or an error."""


def score(
    labelled: Labelled,
    links: HeldOutPairs | None,
    model: FittedModel,
    cosines: Array | None,
    rows: Callable[[], Any],
    baselines: Mapping[Method, BaselineRows],
    settings: Settings,
) -> tuple[dict[str, float], list[str], dict[str, dict[str, float]]]:
    """Score an embedding, and baselines on the same edges and nodes.

    Returns scores by name; what a reader of them should know, a line each; and the scores of each baseline.

    Args:
        labelled: The nodes whose labels it is scored by.
        links: Held-out pairs and non-edges; None for none.
        model: What made the embedding.
        cosines: ``cosines_of`` its rows without the held-out edges.
        rows: Makes the rows of the labelled nodes.
        baselines: What is scored beside it, or why it cannot be.
        settings: How the job is done.
    """
    warnings, truth = [NO_LINKS] if settings.hold_out and links is None else [], None
    try:
        truth = Truth.of(labelled.graph, settings)
    except DataError as error:
        warnings.append(f"no accuracy was measured: {error}")
    with torch.no_grad():
        ours = scored(cosines, truth, None if truth is None else rows(), model.method.supervised)
    scores = dict(ours.scores)
    if truth is not None:
        scores["majority_accuracy"] = evaluation.majority_accuracy(truth.labels, truth.split)
        if (trained := len(truth.split.train)) < FEW_TRAINED:
            tested = plural(len(truth.split.test), "node")
            count = f"the probe was trained on {trained} and tested on {tested}"
            warnings.append(f"few labels: {count}, so its accuracy is uncertain")
        if labelled.total > len(labelled.nodes):
            warnings.append(f"the accuracy is of {len(labelled.nodes):,} of {labelled.total:,} labelled nodes")
    if links is not None:
        scores["links_held_out"] = float(links.positives.shape[1])
    if not ours.converged:
        warnings.append(_NOT_CONVERGED)
    with stage("baselines", whole=True):
        beside, skipped = _score_baselines(baselines, truth, ours)
    return scores, [*warnings, *skipped], beside


def _score_baselines(
    baselines: Mapping[Method, BaselineRows], truth: Truth | None, ours: Scored
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Scores of raw features and of each baseline; and what was left out, a line each."""
    scores: dict[str, dict[str, float]] = {}
    skipped: list[str] = []
    for baseline, made in baselines.items():
        try:
            if isinstance(made, ClnrError):
                raise made
            cosines, make = made
            with enough_memory():
                rows: Any = None if truth is None else make()
                if baseline == RAW and truth is not None and not truth.is_quick(rows):
                    columns = rows.shape[1]
                    skipped.append(f"the accuracy of raw features was not measured: {columns:,} columns take too long")
                    rows = None
                found = scored(cosines, truth, rows)
        except ClnrError as error:
            skipped.append(f"{baseline.name} was not scored: {error}")
        else:
            scores[baseline.name] = found.scores | found.errors(ours)
    return scores, skipped


def alignment_scores(model: FittedModel, engine: Engine, given: DeviceGraph) -> dict[str, float]:
    """Alignment and uniformity of some nodes in two views that training never saw.

    ``given`` is the graph without the held-out edges, with the features that the encoder is given. In blocks, columns' moments
    are those of the nodes that are measured, as in a sampled step, and only views that are alike in kind are compared.
    """
    method, recipe, count = model.method, model.recipe, given.graph.num_nodes
    if method.objective is None or (given.in_blocks and not method.symmetric_views):
        return {}
    most = min(count, (recipe.sampled_nodes or _ALIGNED_NODES) if given.in_blocks else _ALIGNED_NODES)
    nodes = rng.permute(rng.key(model.seed, "measured"), torch.arange(most), count)
    if not given.in_blocks:
        nodes = nodes.sort().values.to(engine.device)
    with torch.no_grad(), engine.use_threads():
        parameters = model.parameters_on(engine)
        u, v = map(unit_rows, fresh_views(method, recipe, parameters, engine.float32, given, model.seed, nodes))
        return {"alignment": geometry.alignment(u, v), "uniformity": (geometry.uniformity(u) + geometry.uniformity(v)) / 2}


def effective_rank(vectors: Any) -> float:
    """That of some of the vectors that are written."""
    return geometry.effective_rank(torch.from_numpy(vectors[sample_nodes(len(vectors), _RANKED_NODES)]))

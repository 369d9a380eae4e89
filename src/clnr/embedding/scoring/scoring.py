"""How rows are scored on a user's graph: by held-out edges and, with labels, by a linear probe. Baselines are scored alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from clnr import datasets
from clnr.engine import unit_rows
from clnr.errors import DataError
from clnr.evaluation import (
    LinkSplit,
    accuracy_error,
    auc_error,
    link_cosines,
    logistic_probe,
    majority_accuracy,
    score_cosines,
)
from clnr.evaluation.logistic_regression import MOST_ITERATIONS, MOST_NODES
from clnr.graph import Graph, Split
from clnr.graph.csr import Array

_MOST_MULTIPLIED = 5e8


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores by name, and what they were computed from, to compare them with others.

    Attributes:
        scores: Values by name.
        cosines: Of each held-out pair, then of each non-edge; None without held-out edges.
        correct: Which of the test nodes were classified correctly; None without labels.
        warnings: What a reader of the scores should know, a line each.
    """

    scores: dict[str, float]
    cosines: Array | None
    correct: Array | None
    warnings: tuple[str, ...] = ()

    def errors(self, other: Scored) -> dict[str, float]:
        """Standard errors of the differences between these scores and others on the same edges and nodes."""
        found = {}
        if self.cosines is not None and other.cosines is not None:
            found["link_auc_error"] = auc_error(self.cosines, other.cosines)
        if self.correct is not None and other.correct is not None:
            found["strict_accuracy_error"] = accuracy_error(self.correct, other.correct)
        return found


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores rows of the nodes of one graph.

    Attributes:
        links: The edges held out; None for none.
        labels: Class per node; None for no score by labels.
        split: Training, validation and test nodes; None without labels.
        seed: Draws nodes for the probe, if there are too many.
    """

    links: LinkSplit | None
    labels: Array | None
    split: Split | None
    seed: int

    @classmethod
    def of(cls, graph: Graph, links: LinkSplit | None, seed: int, by_labels: bool) -> Scorer:
        """The scorer of a graph; a DataError says why its labels cannot be used."""
        if not by_labels or graph.labels is None:
            return cls(links, None, None, seed)
        split = datasets.split_of(graph, seed)
        if len(np.unique(graph.labels[split.train])) < 2:
            raise DataError("the training nodes are of one class")
        return cls(links, graph.labels, split, seed)

    @property
    def scores_anything(self) -> bool:
        return self.links is not None or self.labels is not None

    def reference(self) -> dict[str, float]:
        """What the labels alone give."""
        if self.labels is None or self.split is None:
            return {}
        return {"majority_accuracy": majority_accuracy(self.labels, self.split)}

    def score(self, seen: Any, rows: Any | None, logits: bool = False) -> Scored:
        """Score an embedding.

        Args:
            seen: Rows of the graph without the held-out edges: a tensor, an array or a sparse matrix.
            rows: Rows of the whole graph, an array or a sparse matrix; None to score by held-out edges alone.
            logits: Whether rows are the logits of a classifier, and need no probe.
        """
        scores: dict[str, float] = {}
        cosines = None if self.links is None else link_cosines(_comparable(seen, self.links), self.links)
        if cosines is not None:
            scores |= {f"link_{name}": value for name, value in score_cosines(cosines).items()}
        if rows is None or self.labels is None or self.split is None:
            return Scored(scores, cosines, None)
        if logits:
            validation, correct = (rows[nodes].argmax(1) == self.labels[nodes] for nodes in self.split[1:])
            scores |= {"strict_accuracy": 100 * float(correct.mean()), "validation_accuracy": 100 * float(validation.mean())}
            return Scored(scores, cosines, correct)
        probe = logistic_probe(rows, self.labels, self.split, self.seed)
        scores |= {"strict_accuracy": probe.strict, "validation_accuracy": probe.validation}
        return Scored(scores, cosines, probe.correct, tuple(_unconverged(probe.converged)))

    def is_quick(self, rows: Any) -> bool:
        """Whether a probe of these rows takes a minute at most: by the numbers multiplied in each of its iterations."""
        if self.labels is None or self.split is None:
            return True
        per_row = rows.nnz / rows.shape[0] if sp.issparse(rows) else rows.shape[1]
        classes = len(np.unique(self.labels[self.split.train]))
        return min(len(self.split.train), MOST_NODES) * per_row * classes <= _MOST_MULTIPLIED


def _comparable(rows: Any, links: LinkSplit) -> Any:
    """Rows as ``link_cosines`` takes them: of length 1, unless nodes are of several kinds."""
    if sp.issparse(rows):
        from sklearn.preprocessing import normalize

        return normalize(sp.csr_array(rows))
    tensor = rows if isinstance(rows, torch.Tensor) else torch.tensor(rows)
    return unit_rows(tensor) if links.kinds is None else tensor


def _unconverged(converged: bool) -> Iterator[str]:
    if not converged:
        yield f"the linear probe has not converged after {MOST_ITERATIONS:,} iterations: its accuracy may be too low"

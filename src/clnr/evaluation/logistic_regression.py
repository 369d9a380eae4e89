"""Logistic regression on a frozen embedding, fitted until it converges: the linear probe for graphs of the user's own.

``linear_probe`` is the paper's probe: a fixed number of Adam steps on the columns as they are. Where a column's scale is
unlucky these are too few, and it understates the embedding. Here L-BFGS converges, and validation nodes choose both the penalty
and the scaling of the columns, so that no embedding is judged by an accident of scale. All penalties and scalings are fitted at
once, where the rows are: scikit-learn fits one after the other, on the CPU, and takes two seconds to import.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from clnr import rng
from clnr.errors import DataError
from clnr.evaluation.class_scores import class_scores
from clnr.evaluation.lbfgs import minimize
from clnr.graph import Split
from clnr.graph.csr import Array

MOST_NODES = 10_000
"""The most training nodes that it is fitted on, and the most validation nodes that it is chosen by; others are not drawn."""
MOST_ITERATIONS = 1000
PENALTIES = tuple(10.0**-power for power in range(6))
"""Weights of the squared norm beside the mean loss: scikit-learn's ``C`` is 1 / (penalty * training nodes)."""
# Of a gradient along principal axes; ten times smaller, and no accuracy of the study changes by more than two nodes.
_TOLERANCE = 1e-3
_BLOCK_ROWS = 1 << 14
_MOST_LOGITS = 1 << 25
_MOST_AXES = 1024
# What is smaller beside the mean, or beside the largest, comes from rounding.
_CONSTANT = 1e-10


class LogisticProbe(NamedTuple):
    """A fitted probe: ``class_scores`` of the test nodes, read once, and the accuracy of the validation nodes, which chose it.

    Then the chosen penalty, whether each column was scaled by its own deviation or all by one, whether the chosen fit
    converged, and which of the test nodes it classified correctly.
    """

    scores: dict[str, float]
    validation: float
    penalty: float
    per_column: bool
    converged: bool
    correct: Array


def logistic_probe(rows: Any, labels: Array, split: Split, seed: int, device: torch.device | str = "cpu") -> LogisticProbe:
    """Fit multinomial logistic regression (L-BFGS) to the training nodes, for each scaling and penalty; choose by validation.

    Dense rows are centred by the mean of the training nodes; sparse rows are not, so that they stay sparse. Of equals, the
    first is chosen: each column scaled by its own deviation, the largest penalty. The seed draws the nodes if there are more
    than ``MOST_NODES``.
    """
    train, validation = (
        drawn(nodes, rng.key(seed, "probe", name), MOST_NODES)
        for nodes, name in ((split.train, "train"), (split.validation, "validation"))
    )
    classes, targets = np.unique(labels[train], return_inverse=True)
    if len(classes) < 2:
        raise DataError("the training nodes are of one class")
    if sp.issparse(rows):
        rows = sp.csr_array(rows)
    else:
        rows = rows.to(device) if isinstance(rows, Tensor) else torch.tensor(rows, device=device)
    weights, biases, converged = _fit(_float64(rows, train), targets, len(classes))
    guesses, _ = _guess(rows, validation, weights, biases)
    right = (classes[guesses] == labels[validation][:, None]).sum(0)
    best = int(right.argmax())
    guesses, margins = _guess(rows, split.test, weights[best : best + 1], biases[best : best + 1])
    guessed, truth = classes[guesses[:, 0]], labels[split.test]
    return LogisticProbe(
        scores=class_scores(truth, guessed, classes, margins[:, 0]),
        validation=100 * int(right[best]) / len(validation),
        penalty=PENALTIES[best % len(PENALTIES)],
        per_column=best < len(PENALTIES),
        converged=bool(converged[best]),
        correct=guessed == truth,
    )


def majority_accuracy(labels: Array, split: Split) -> float:
    """The share of the majority class among the test nodes, in percent: the accuracy of always guessing it."""
    return 100 * int(np.unique(labels[split.test], return_counts=True)[1].max()) / len(split.test)


def drawn(nodes: Array, key: rng.Key, most: int) -> Array:
    """Some nodes, in their order: all of them, or ``most``, drawn uniformly."""
    if len(nodes) <= most:
        return nodes
    return nodes[np.sort(rng.permute(key, torch.arange(most), len(nodes)).numpy())]


def _fit(rows: Any, targets: Array, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights [k, width, classes] and biases [k, classes] of rows as they are, and whether each fit converged.

    First with each column scaled by its own deviation, then with all by one, each for every penalty.
    """
    sparse = sp.issparse(rows)
    mean, deviation = _moments(rows)
    centre, one = torch.zeros_like(mean) if sparse else mean, torch.ones_like(mean)
    common = deviation.square().mean().sqrt()
    scales = (torch.where(deviation > _CONSTANT * mean.abs(), deviation, one), torch.where(common > 0, common, one))
    truth = torch.nn.functional.one_hot(torch.from_numpy(targets), classes).to(mean.device, torch.float32)
    fits = []
    for scale in scales:
        scaled = (rows @ sp.diags_array(1 / scale.numpy())).tocsr() if sparse else (rows - mean) / scale
        weights, *others = _fit_scaled(scaled, truth)
        fits.append((weights / scale[:, None], *others))
    weights, biases, converged = (torch.cat(parts) for parts in zip(*fits, strict=True))
    return weights, biases - centre @ weights, converged


def _fit_scaled(rows: Any, truth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As ``_fit``, of rows that are scaled, for every penalty."""
    count, classes = truth.shape
    x, axes, squares = _turned(rows)
    # scikit-learn's two classes have one weight, which is the difference of these two.
    penalty = torch.tensor(PENALTIES, device=truth.device) * (2 if classes == 2 else 1)

    def evaluate(which: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        most = max(1, _MOST_LOGITS // (count * classes))
        parts = [of_some(*some) for some in zip(which.split(most), points.split(most), strict=True)]
        return torch.cat([value for value, _ in parts]), torch.cat([gradient for _, gradient in parts])

    def of_some(which: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        point = points.reshape(len(which), -1, classes)
        weight = point[:, :-1]
        likely = (_times(x, weight) + point[:, -1]).log_softmax(2)
        loss = -(likely * truth[:, None]).sum(2).mean(0, dtype=torch.float64)
        value = loss + 0.5 * penalty[which] * weight.square().sum((1, 2), dtype=torch.float64)
        error = (likely.exp_() - truth[:, None]) / count
        of_weight = _times(x.T, error.transpose(0, 1)).transpose(0, 1) + penalty[which][:, None, None] * weight
        return value, torch.cat([of_weight, error.sum(0)[:, None]], 1).reshape(len(which), -1)

    curvature = (squares / (count * classes)).float() + penalty[:, None]
    curvature = torch.cat([curvature, torch.full_like(penalty, 1 / classes)[:, None]], 1).repeat_interleave(classes, 1)
    points, converged = minimize(evaluate, torch.zeros_like(curvature), curvature, _TOLERANCE, MOST_ITERATIONS)
    point = points.reshape(len(penalty), -1, classes).double()
    weights = point[:, :-1] if axes is None else axes @ point[:, :-1]
    return weights, point[:, -1], converged


def _turned(rows: Any) -> tuple[Any, Tensor | None, Tensor]:
    """Rows along their principal axes, these axes, and the sum of squares along each; rows as they are where axes take long.

    That changes neither products nor norms of weights. The Hessian is nearly diagonal there, and few iterations are enough.
    """
    count, width = rows.shape
    if min(count, width) > _MOST_AXES:
        square = rows.multiply(rows) if sp.issparse(rows) else rows.square()
        return rows.astype(np.float32) if sp.issparse(rows) else rows.float(), None, torch.as_tensor(square.sum(0))
    few, many = (rows, rows.T) if count < width else (rows.T, rows)
    gram = few @ many
    squares, axes = torch.linalg.eigh(torch.from_numpy(gram.toarray()) if sp.issparse(gram) else gram)
    kept = squares > _CONSTANT * squares[-1]
    axes, squares = axes[:, kept], squares[kept]
    if count < width:
        axes = _product(many, axes) / squares.sqrt()
    return _product(rows, axes).float(), axes, squares


def _moments(rows: Any) -> tuple[Tensor, Tensor]:
    """The mean and the deviation of each column."""
    if isinstance(rows, Tensor):
        return rows.mean(0), rows.std(0, correction=0)
    mean, square = (torch.from_numpy(each.sum(0) / rows.shape[0]) for each in (rows, rows.multiply(rows)))
    return mean, (square - mean.square()).clamp(min=0).sqrt()


def _guess(rows: Any, nodes: Array, weights: Tensor, biases: Tensor) -> tuple[Array, Array]:
    """The class that each fit guesses for some nodes, by its place among the classes, [n, k].

    And by how much the logit of the second class exceeds that of the first.
    """
    guesses, margins = [], []
    for some in np.array_split(nodes, -(-len(nodes) // _BLOCK_ROWS)):
        logits = _times(_float64(rows, some), weights) + biases
        guesses.append(logits.argmax(2))
        margins.append(logits[..., 1] - logits[..., 0])
    return torch.cat(guesses).cpu().numpy(), torch.cat(margins).cpu().numpy()


def _float64(rows: Any, nodes: Array) -> Any:
    if sp.issparse(rows):
        return rows[nodes].astype(np.float64)
    return rows[torch.tensor(nodes, device=rows.device)].double()


def _times(x: Any, weights: Tensor) -> Tensor:
    """The product of a matrix with each of some: [n, k, c] from [k, p, c]."""
    side_by_side = weights.transpose(0, 1).reshape(weights.shape[1], -1)
    return _product(x, side_by_side).reshape(-1, len(weights), weights.shape[2])


def _product(x: Any, matrix: Tensor) -> Tensor:
    """The product of a matrix, a tensor or sparse, with a tensor."""
    return x @ matrix if isinstance(x, Tensor) else torch.from_numpy(x @ matrix.numpy())

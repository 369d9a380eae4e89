"""Linear evaluation of a frozen embedding, under two protocols from one pass.

``strict``: among all steps the earliest of highest validation accuracy is chosen; the test set is read once, there.
``paper``: the authors' rule. The highest test accuracy among the steps at which validation accuracy was at least its best so
far. It lets the test set choose, and is reported only beside ``strict`` and under its own name.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from clnr.graph import Split

_TOGETHER = 100
_LOGITS = 1 << 24


class Probe(NamedTuple):
    """Accuracies in percent; ``step`` (from 1) and ``validation`` say what ``strict`` chose, and by what."""

    strict: float
    paper: float
    validation: float
    step: int


@torch.no_grad()
def probe(z: Tensor, labels: Tensor, split: Split, steps: int, learning_rate: float, weight_decay: float) -> Probe:
    """Fit multinomial logistic regression by full-batch Adam and read accuracies along the way.

    Weights start at zero. Validation and test rows are classified for a hundred steps at a time, which costs one product
    in place of a hundred; nothing waits for the device until the end.

    Args:
        z: One row per node.
        labels: Class per node.
        split: Nodes to fit on, to choose the step by, and to report.
        steps: Adam steps.
        learning_rate: Of Adam.
        weight_decay: L2, of weights and biases alike.
    """
    train, validation, test = (_rows(z, labels, nodes) for nodes in split)
    x, y = train
    # Of the training labels alone: not even the number of classes is taken from what is to be predicted.
    classes = int(y.max()) + 1
    target = torch.nn.functional.one_hot(y, classes).to(x.dtype)
    w = torch.zeros(x.shape[1], classes, device=z.device, requires_grad=True)
    optimiser = torch.optim.Adam([w], lr=learning_rate, weight_decay=weight_decay)
    trace_validation, trace_test = [], []
    best = torch.tensor(-1, device=z.device)
    chosen = w.detach().clone()
    for begin in range(0, steps, _TOGETHER):
        path = []
        for _ in range(min(_TOGETHER, steps - begin)):
            w.grad = x.T @ ((x @ w).softmax(1) - target) / x.shape[0]
            optimiser.step()
            path.append(w.detach().clone())
        weights = torch.stack(path)
        right = _correct(weights, validation)
        top = right.argmax()
        better = right[top] > best
        chosen = torch.where(better, weights[top], chosen)
        best = torch.maximum(best, right[top])
        trace_validation.append(right)
        trace_test.append(_correct(weights, test))
    seen, optimistic = torch.cat(trace_validation), torch.cat(trace_test)
    admitted = seen >= seen.cummax(0).values
    strict = _correct(chosen[None], test)[0]
    return Probe(
        strict=100 * int(strict) / len(test[1]),
        paper=100 * int(optimistic[admitted].max()) / len(test[1]),
        validation=100 * int(best) / len(validation[1]),
        step=int(seen.argmax()) + 1,
    )


def predictions(z: Tensor, labels: Tensor, split: Split) -> Probe:
    """Accuracies where rows are a classifier's logits: there is no step to choose, so that both protocols agree."""
    validation, test = (
        100 * int((z[index].argmax(1) == labels[index]).sum()) / len(index)
        for index in (torch.tensor(nodes, device=z.device) for nodes in (split.validation, split.test))
    )
    return Probe(strict=test, paper=test, validation=validation, step=0)


def _rows(z: Tensor, labels: Tensor, nodes: object) -> tuple[Tensor, Tensor]:
    """Rows with a constant 1 appended, so that the bias is a row of the weights; and their classes."""
    index = torch.tensor(nodes, device=z.device)
    rows = z[index].to(torch.float32)
    return torch.cat([rows, rows.new_ones(len(rows), 1)], 1), labels[index]


def _correct(weights: Tensor, rows: tuple[Tensor, Tensor]) -> Tensor:
    """For each of several weights, how many rows it classifies rightly."""
    count, width, classes = weights.shape
    side_by_side = weights.permute(1, 0, 2).reshape(width, count * classes)
    block = max(1, _LOGITS // (count * classes))
    right = torch.zeros(count, dtype=torch.int64, device=weights.device)
    for x, y in zip(*(part.split(block) for part in rows), strict=True):
        guess = (x @ side_by_side).reshape(len(x), count, classes).argmax(2)
        right += (guess == y[:, None]).sum(0)
    return right

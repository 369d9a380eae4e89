"""Linear evaluation of a frozen embedding, under two protocols from one pass.

``strict``: the earliest step of highest validation accuracy is chosen; the test set is read only there.
``paper``: the authors' rule. The highest test accuracy among the steps at which validation accuracy was at least its best so
far. The test set takes part in the choice, so it is reported only beside ``strict`` and under its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clnr.engine import capture, own_stream
from clnr.graph import Split

_STEPS_PER_CAPTURE = 100
_BLOCK_LOGITS = 1 << 24
_MOST_FLOATS = 1 << 29
_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class Probe(NamedTuple):
    """Accuracies in percent; ``step`` (from 1) is the step that ``strict`` chose, ``validation`` its validation accuracy."""

    strict: float
    paper: float
    validation: float
    step: int


class Task(NamedTuple):
    """One embedding to probe: its rows, split, learning rate and weight decay."""

    z: Tensor
    split: Split
    learning_rate: float
    weight_decay: float


def probes(tasks: Sequence[Task], labels: Tensor, steps: int) -> list[Probe]:
    """Fit multinomial logistic regression by full-batch Adam, with L2 of weights and biases, read after every step.

    Embeddings of the same size are fitted in parallel.
    """
    done: dict[int, Probe] = {}
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, task in enumerate(tasks):
        groups.setdefault(_size(task, labels), []).append(i)
    for size, members in groups.items():
        count = _side_by_side(size, labels.device)
        for begin in range(0, len(members), count):
            some = members[begin : begin + count]
            done |= zip(some, _Fit([tasks[i] for i in some], labels).run(steps), strict=True)
    return [done[i] for i in range(len(tasks))]


def _size(task: Task, labels: Tensor) -> tuple[int, ...]:
    """Width, nodes of each part, and classes; these are counted in the training labels only."""
    classes = labels[torch.tensor(task.split.train)].unique()
    return (task.z.shape[1], *(len(nodes) for nodes in task.split), len(classes))


def _numbered(labels: Tensor, train: object) -> Tensor:
    """Labels with the classes of the training nodes numbered without gaps; -1 for others, which are never predicted."""
    classes = labels[torch.tensor(train)].unique()
    place = torch.searchsorted(classes, labels).clamp_(max=len(classes) - 1)
    return torch.where(classes[place] == labels, place, -1)


def _side_by_side(size: tuple[int, ...], device: torch.device) -> int:
    """How many to fit at a time: one on a CPU, on a GPU as many as a bound on memory allows."""
    return 1 if device.type == "cpu" else max(1, _MOST_FLOATS // (size[0] * sum(size[1:4])))


class _Fit:
    """Several regressions of the same size: weights [S, F, C] over rows [S, n, F].

    Weights start at zero. Validation and test rows are classified for a hundred steps at a time, by one product instead of a
    hundred; nothing waits for the device until the end.
    """

    def __init__(self, tasks: Sequence[Task], labels: Tensor):
        numbered = [_numbered(labels, task.split.train) for task in tasks]
        self._train, self._validation, self._test = (
            _stacked([_rows(task.z, classes, task.split[part]) for task, classes in zip(tasks, numbered, strict=True)])
            for part in range(3)
        )
        x, y = self._train
        shape = (len(tasks), x.shape[2], int(y.max()) + 1)
        self._target = torch.nn.functional.one_hot(y, shape[2]).to(x.dtype)
        self._rate, self._decay = (
            torch.tensor(numbers, device=x.device)[:, None, None]
            for numbers in zip(*((task.learning_rate, task.weight_decay) for task in tasks), strict=True)
        )
        self._w, self._mean, self._square, self._chosen = (torch.zeros(shape, device=x.device) for _ in range(4))
        self._step = torch.zeros((), device=x.device)
        self._best = torch.full((len(tasks),), -1, device=x.device)

    @torch.no_grad()
    def run(self, steps: int) -> list[Probe]:
        seen = self._all(steps)
        validation, optimistic = (torch.cat(part, 1) for part in zip(*seen, strict=True))
        admitted = validation >= validation.cummax(1).values
        strict = _correct(self._chosen[None], self._test)[:, 0]
        of_test, of_validation = (rows[1].shape[1] for rows in (self._test, self._validation))
        return [
            Probe(
                strict=100 * int(strict[i]) / of_test,
                paper=100 * int(optimistic[i][admitted[i]].max()) / of_test,
                validation=100 * int(self._best[i]) / of_validation,
                step=int(validation[i].argmax()) + 1,
            )
            for i in range(len(strict))
        ]

    def _all(self, steps: int) -> list[tuple[Tensor, Tensor]]:
        """Run a number of steps, a hundred at a time; on a GPU a hundred steps are captured once and replayed."""
        device, whole = self._best.device, steps // _STEPS_PER_CAPTURE
        with own_stream(device):
            seen = [self._some(min(_STEPS_PER_CAPTURE, steps))]
            if device.type == "cuda" and whole > 2:
                replay = capture(lambda: self._some(_STEPS_PER_CAPTURE))
                seen += [(right.clone(), optimistic.clone()) for right, optimistic in (replay() for _ in range(whole - 1))]
            done = _STEPS_PER_CAPTURE * len(seen)
            return seen + [
                self._some(min(_STEPS_PER_CAPTURE, steps - begin)) for begin in range(done, steps, _STEPS_PER_CAPTURE)
            ]

    def _some(self, steps: int) -> tuple[Tensor, Tensor]:
        """Some steps: the number of correct validation and test rows after each; the best weights so far are kept."""
        weights = torch.stack([self._adam() for _ in range(steps)])
        right = _correct(weights, self._validation)
        most, top = right.max(1)
        best = weights[top, torch.arange(len(top), device=top.device)]
        self._chosen.copy_(torch.where((most > self._best)[:, None, None], best, self._chosen))
        self._best.copy_(torch.maximum(self._best, most))
        return right, _correct(weights, self._test)

    def _adam(self) -> Tensor:
        """One step of Adam (Kingma and Ba, 2015), and the weights after it."""
        x, y = self._train
        gradient = x.mT @ ((x @ self._w).softmax(2) - self._target) / y.shape[1] + self._decay * self._w
        self._step += 1
        self._mean.lerp_(gradient, 1 - _BETAS[0])
        self._square.lerp_(gradient.square(), 1 - _BETAS[1])
        first, second = (1 - beta**self._step for beta in _BETAS)
        self._w -= self._rate / first * self._mean / ((self._square / second).sqrt() + _EPSILON)
        return self._w.clone()


def predictions(z: Tensor, labels: Tensor, split: Split) -> Probe:
    """Accuracies of rows that are logits of a classifier: there is no step to choose, and both protocols agree."""
    validation, test = (
        100 * int((z[index].argmax(1) == labels[index]).sum()) / len(index)
        for index in (torch.tensor(nodes, device=z.device) for nodes in (split.validation, split.test))
    )
    return Probe(strict=test, paper=test, validation=validation, step=0)


def _rows(z: Tensor, labels: Tensor, nodes: object) -> tuple[Tensor, Tensor]:
    """Rows with a constant 1 appended, which makes the bias a row of the weights; and their classes."""
    index = torch.tensor(nodes, device=z.device)
    rows = z[index].to(torch.float32)
    return torch.cat([rows, rows.new_ones(len(rows), 1)], 1), labels[index]


def _stacked(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    rows, classes = zip(*parts, strict=True)
    return torch.stack(rows), torch.stack(classes)


def _correct(weights: Tensor, rows: tuple[Tensor, Tensor]) -> Tensor:
    """For each of several weights [K, S, F, C], the number of rows classified correctly: [S, K]."""
    count, tasks, width, classes = weights.shape
    side_by_side = weights.permute(1, 2, 0, 3).reshape(tasks, width, count * classes)
    block = max(1, _BLOCK_LOGITS // (tasks * count * classes))
    right = torch.zeros(tasks, count, dtype=torch.int64, device=weights.device)
    for x, y in zip(*(part.split(block, 1) for part in rows), strict=True):
        guess = (x @ side_by_side).reshape(tasks, -1, count, classes).argmax(3)
        right += (guess == y[:, :, None]).sum(1)
    return right

from __future__ import annotations

import numpy as np
import pytest
import torch

from clnr.evaluation import Probe, Task, linear_probe, predictions, probes
from clnr.graph import Split

N, CLASSES = 120, 4
SPLIT = Split(np.arange(0, 30), np.arange(30, 60), np.arange(60, N))


@pytest.fixture
def blobs():
    """Noisy blobs, hard enough that accuracies move up and down along the way."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, N)
    centres = random.standard_normal((CLASSES, 20)) * 0.45
    return torch.tensor(centres[labels] + random.standard_normal((N, 20)), dtype=torch.float32), torch.tensor(labels)


def traces(z, labels):
    """The probe written as a textbook would: a torch module, its loss, accuracies after every step."""
    model = torch.nn.Linear(z.shape[1], int(labels.max()) + 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    adam = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-3)
    train, validation, test = (torch.tensor(part) for part in SPLIT)
    seen = []
    for _ in range(250):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(model(z[train]), labels[train]).backward()
        adam.step()
        with torch.no_grad():
            right = model(z).argmax(1) == labels
        seen.append((100 * right[validation].double().mean().item(), 100 * right[test].double().mean().item()))
    return seen


def probe(z, labels, split=SPLIT, steps=250, learning_rate=0.02, weight_decay=1e-3):
    return probes([Task(z, split, learning_rate, weight_decay)], labels, steps)[0]


def strict_rule(seen):
    best = max(validation for validation, _ in seen)
    step = next(i for i, (validation, _) in enumerate(seen) if validation == best)
    return step + 1, seen[step][1]


def paper_rule(seen):
    best_validation = best_test = 0.0
    for validation, test in seen:
        if validation >= best_validation:
            best_validation = validation
            best_test = max(best_test, test)
    return best_test


@pytest.mark.parametrize(("steps", "logits"), [(1, 1 << 24), (7, 1 << 24), (100, 1), (100, 1 << 24), (1000, 1)])
def test_both_protocols_follow_their_rules(blobs, steps, logits, monkeypatch):
    monkeypatch.setattr(linear_probe, "_STEPS_PER_CAPTURE", steps)
    monkeypatch.setattr(linear_probe, "_BLOCK_LOGITS", logits)
    seen = traces(*blobs)
    got = probe(*blobs)
    step, strict = strict_rule(seen)
    assert got.step == step
    assert got.strict == pytest.approx(strict)
    assert got.paper == pytest.approx(paper_rule(seen))
    assert got.validation == pytest.approx(max(validation for validation, _ in seen))
    assert strict != paper_rule(seen), "the example must tell the two rules apart"


def test_test_labels_cannot_change_what_is_selected(blobs):
    """Every test label replaced: the same step, the same validation accuracy; only the report changes."""
    z, labels = blobs
    honest = probe(z, labels)
    for shift in range(1, CLASSES):
        changed = labels.clone()
        changed[60:] = (labels[60:] + shift) % CLASSES
        other = probe(z, changed)
        assert (other.step, other.validation) == (honest.step, honest.validation)
        assert other.strict != honest.strict
    unheard_of = labels.clone()
    unheard_of[60:] = 9
    assert probe(z, unheard_of) == Probe(0.0, 0.0, honest.validation, honest.step)


@pytest.mark.parametrize("apart", [True, False], ids=["one by one", "side by side"])
def test_many_at_once_are_each_what_they_are_alone(blobs, apart, monkeypatch):
    """Other rows, splits, rates and decays; one of another size, and one with fewer classes."""
    z, labels = blobs
    if not apart:
        monkeypatch.setattr(linear_probe, "_side_by_side", lambda size, device: 3)
    random = np.random.default_rng(1)
    splits = [SPLIT, *(Split(*np.split(random.permutation(N), [30, 60])) for _ in range(3))]
    few = np.flatnonzero(labels[:60].numpy() != CLASSES - 1)[:30]
    splits.append(Split(few, np.arange(60, 90), np.arange(90, N)))
    tasks = [Task(z * scale, split, 0.01 * scale, 1e-3 / scale) for scale, split in enumerate(splits, 1)]
    tasks.append(Task(z[:, :7], SPLIT, 0.02, 0.0))
    together = probes(tasks, labels, 150)
    for task, got in zip(tasks, together, strict=True):
        assert got == probe(task.z, labels, task.split, 150, task.learning_rate, task.weight_decay)
    assert len({each.strict for each in together}) > 3


def test_a_classifiers_own_predictions_have_no_step_to_choose(blobs):
    z, labels = blobs
    logits = z[:, :CLASSES]
    got = predictions(logits, labels, SPLIT)
    right = [int(row.tolist().index(max(row.tolist())) == label) for row, label in zip(logits, labels.tolist(), strict=True)]
    assert got.strict == got.paper == pytest.approx(100 * sum(right[60:]) / 60)
    assert got.validation == pytest.approx(100 * sum(right[30:60]) / 30)
    assert got.step == 0
    few, unknown = z[:, : CLASSES - 1], torch.where(labels == CLASSES - 1, 99, labels)
    assert predictions(few, unknown, SPLIT) == predictions(few, labels, SPLIT)


@pytest.mark.gpu
def test_the_gpu_agrees(blobs, cuda):
    z, labels = blobs
    here, there = probe(z, labels), probe(z.to(cuda), labels.to(cuda))
    assert there.strict == pytest.approx(here.strict, abs=2)
    assert there.validation == pytest.approx(here.validation, abs=4)


def test_a_label_of_a_large_number_costs_no_more_than_a_small_one():
    """Nothing is made for the class numbers between."""
    random = torch.Generator().manual_seed(3)
    z, labels = torch.randn(60, 5, generator=random), torch.arange(60) % 3
    split = Split(np.arange(30), np.arange(30, 45), np.arange(45, 60))
    spread = torch.tensor([0, 7, 2**40])[labels]
    assert probe(z, spread, split, 30, 0.01, 1e-4) == probe(z, labels, split, 30, 0.01, 1e-4)

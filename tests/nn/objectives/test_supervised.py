from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from clnr import rng
from clnr.nn.objectives import CrossEntropy, Supervision
from tests import oracles
from tests.nn.objectives.moments import differentiable, rows, step, value

TRAIN, VALIDATION = [0, 3, 7, 8], [1, 2, 9]
LABELS = np.arange(40) % 3


def supervision():
    nodes = (torch.tensor(part) for part in (TRAIN, VALIDATION))
    train, validation = ((part, torch.tensor(LABELS)[part]) for part in nodes)
    return Supervision(*train, *validation)


def taught():
    return step(supervision=supervision())


def test_the_loss_is_that_of_the_training_nodes():
    (z,) = rows(1, 40, 3)
    assert value(CrossEntropy(), [z], taught()) == pytest.approx(oracles.cross_entropy(z[TRAIN], LABELS[TRAIN]))


def test_the_criterion_is_that_of_the_validation_nodes_on_the_embedding():
    embedded, z = rows(2, 40, 3)
    loss = CrossEntropy()({}, [torch.tensor(z)], taught())
    got = CrossEntropy().criterion(loss, lambda: torch.tensor(embedded), taught())
    assert float(got) == pytest.approx(oracles.cross_entropy(embedded[VALIDATION], LABELS[VALIDATION]))


def test_gradient_reaches_training_nodes_only():
    (z,) = rows(1, 40, 3)
    assert differentiable(CrossEntropy(), [z], taught())
    z = torch.tensor(z, requires_grad=True)
    CrossEntropy()({}, [z], taught()).backward()
    assert z.grad.any(1).nonzero()[:, 0].tolist() == TRAIN


def test_equal_logits_cost_the_logarithm_of_the_number_of_classes():
    assert value(CrossEntropy(), [np.full((40, 3), 7.0)], taught()) == pytest.approx(math.log(3))


def test_right_answers_cost_nothing():
    assert value(CrossEntropy(), [100.0 * np.eye(3)[LABELS]], taught()) == pytest.approx(0)


def test_it_has_nothing_of_its_own_to_learn():
    assert CrossEntropy().init(3, rng.key(0)) == {}
    assert CrossEntropy.supervised

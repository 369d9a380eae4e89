"""That calls in processes apart show what they are there to show."""

from __future__ import annotations

import numpy as np
import pytest

from tests.apart import HELD, MEMORY

KEPT: list[object] = []


def take(mebibytes):
    KEPT.append(np.ones(mebibytes << 20, np.uint8))


def reserve(mebibytes):
    KEPT.append(np.empty(mebibytes << 20, np.uint8))


@pytest.mark.full
def test_a_greedy_call_is_told_and_what_is_only_reserved_does_not_count(apart):
    assert apart("tests.test_apart:take", (MEMORY >> 20) + 64).startswith("took ")
    assert apart("tests.test_apart:reserve", 2 * HELD >> 20).startswith("numpy")
    assert apart("tests.test_apart:reserve", 4 * MEMORY >> 20) == "done"

"""That calls in processes apart show what they are there to show."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from clnr.errors import DataError
from tests.apart import HELD, MEMORY, process_apart

KEPT: list[object] = []


def take(mebibytes):
    KEPT.append(np.ones(mebibytes << 20, np.uint8))


def reserve(mebibytes):
    KEPT.append(np.empty(mebibytes << 20, np.uint8))


def crash():
    ctypes.string_at(0)


def refuse():
    raise DataError("no")


def fail():
    raise KeyError("k")


@pytest.fixture(scope="module")
def apart():
    with process_apart() as call:
        yield call


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("take", [(MEMORY >> 20) + 64], "took "),
        ("reserve", [2 * HELD >> 20], "numpy"),
        # What is only reserved does not count.
        ("reserve", [4 * MEMORY >> 20], "done"),
        ("crash", [], "crashed: Segmentation fault"),
        ("refuse", [], "DataError: no"),
        ("fail", [], "builtins.KeyError: 'k'"),
    ],
)
def test_what_goes_wrong_is_said(apart, call, arguments, expected):
    assert apart(f"tests.test_apart:{call}", *arguments).startswith(expected)
    assert apart("tests.test_apart:take", 1) == "done"

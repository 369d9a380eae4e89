"""That calls in processes apart show what they are there to show."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

from clnr.errors import DataError
from tests.apart import HELD, MEMORY, process_apart

KEPT: list[object] = []


def harmless(size):
    KEPT.append(np.ones(size, np.uint8))


def reserving():
    KEPT.append(np.empty(4 * MEMORY, np.uint8))


def greedy():
    KEPT.append(np.ones(MEMORY + (64 << 20), np.uint8))


def immense():
    np.empty(2 * HELD, np.uint8)


def crashing():
    ctypes.string_at(0)


def aborting():
    os.abort()


def endless():
    while True:
        pass


def refusing():
    raise DataError("no")


def failing():
    raise KeyError("k")


@pytest.fixture(scope="module")
def apart():
    with process_apart() as call:
        yield call


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("greedy", "took "),
        ("immense", "numpy"),
        ("crashing", "crashed: Segmentation fault"),
        ("aborting", "crashed: Aborted"),
        ("refusing", "DataError: no"),
        ("failing", "builtins.KeyError: 'k'"),
    ],
)
def test_what_goes_wrong_is_said(apart, call, expected):
    assert apart(f"tests.test_apart:{call}").startswith(expected)
    assert apart("tests.test_apart:harmless", 1 << 20) == "done"


def test_memory_that_is_only_reserved_does_not_count(apart):
    assert apart("tests.test_apart:reserving") == "done"


@pytest.mark.slow
def test_what_computes_for_ever_is_ended(apart):
    assert apart("tests.test_apart:endless").startswith("crashed: ")

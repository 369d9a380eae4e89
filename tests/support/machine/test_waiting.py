"""How torch's threads wait."""

from __future__ import annotations

import os

import pytest

from clnr.support.machine.waiting import wait_asleep

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch):
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if name not in NAMES})


def test_threads_without_work_soon_fall_asleep():
    wait_asleep()
    assert {name: os.environ.get(name) for name in NAMES} == {
        "OMP_WAIT_POLICY": None,
        "GOMP_SPINCOUNT": "1000",
        "KMP_BLOCKTIME": "1",
    }


@pytest.mark.parametrize("name", NAMES)
def test_unless_the_user_says_how_they_wait(name):
    os.environ[name] = "0"
    wait_asleep()
    assert {other: os.environ[other] for other in NAMES if other in os.environ} == {name: "0"}

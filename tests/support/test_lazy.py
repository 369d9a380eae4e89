"""Modules that are imported when they are first used."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

from clnr.support.lazy import lazy


def test_a_module_is_imported_at_its_first_use():
    script = """
import sys
from clnr.support.lazy import lazy
colors, name = lazy("colorsys"), lazy("colorsys", "rgb_to_hsv")
print("colorsys" in sys.modules, repr(colors), repr(name))
print(name(0, 0, 0) == colors.rgb_to_hsv(0, 0, 0), "colorsys" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["False lazy('colorsys') lazy('colorsys', 'rgb_to_hsv')", "True True"]


def test_what_is_asked_is_always_the_modules_own(monkeypatch):
    import colorsys

    assert lazy("colorsys").ONE_THIRD is colorsys.ONE_THIRD
    monkeypatch.setattr(colorsys, "rgb_to_hsv", lambda *color: color)
    assert lazy("colorsys", "rgb_to_hsv")(1, 2, 3) == lazy("colorsys").rgb_to_hsv(1, 2, 3) == (1, 2, 3)


def test_a_copy_works_and_what_is_not_there_is_an_error():
    assert copy.deepcopy(lazy("colorsys")).ONE_SIXTH == copy.copy(lazy("colorsys")).ONE_SIXTH
    with pytest.raises(AttributeError, match="has no attribute 'banana'"):
        lazy("colorsys").banana  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        lazy("no_such_module").anything  # noqa: B018

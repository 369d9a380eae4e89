"""Modules that are imported when they are first used; without an optional package, what needs it says how to install it."""

from __future__ import annotations

import sys

import pytest

from clnr import ClnrError
from clnr.support.lazy import import_optional
from tests.command_line import run_script
from tests.conftest import tiny


def test_a_module_is_imported_at_its_first_use():
    script = """
import sys
from clnr.support.lazy import lazy
colors, name = lazy("colorsys"), lazy("colorsys", "rgb_to_hsv")
print("colorsys" in sys.modules, repr(colors), repr(name))
print(name(0, 0, 0) == colors.rgb_to_hsv(0, 0, 0), "colorsys" in sys.modules)
"""
    assert run_script(script).stdout.splitlines() == ["False lazy('colorsys') lazy('colorsys', 'rgb_to_hsv')", "True True"]


@pytest.fixture
def without(monkeypatch):
    """Hide packages, and their modules that are loaded already."""

    def hide(*packages):
        for name in list(sys.modules):
            if name.partition(".")[0] in packages:
                monkeypatch.setitem(sys.modules, name, None)
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_a_package_without_an_extra_is_installed_by_its_own_name():
    with pytest.raises(ClnrError, match=r"^a test needs no-such-package; install it with: pip install no-such-package$"):
        import_optional("no_such_package.part", "a test")


def test_without_an_extra_it_says_how_to_get_it(without):
    without("torch_geometric")
    with pytest.raises(ClnrError, match=r"needs torch-geometric; install it with: pip install 'clnr\[pyg\]'$"):
        tiny().to_pyg()

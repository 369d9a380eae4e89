"""Without an optional package, what needs it says how to install it."""

from __future__ import annotations

import sys

import pytest

from clnr import ClnrError
from clnr.support.optional import import_optional
from tests.conftest import tiny


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

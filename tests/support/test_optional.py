"""Without an optional package, what needs it says how to install it."""

from __future__ import annotations

import sys

import pytest

from clnr import ClnrError
from clnr.support.optional import import_optional
from tests.conftest import tiny


def test_without_a_package_it_says_how_to_install_it(monkeypatch):
    with pytest.raises(ClnrError, match=r"^a test needs no-such-package; install it with: pip install no-such-package$"):
        import_optional("no_such_package.part", "a test")
    for name in ("torch_geometric", *(name for name in sys.modules if name.startswith("torch_geometric."))):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ClnrError, match=r"needs torch-geometric; install it with: pip install 'clnr\[pyg\]'$"):
        tiny().to_pyg()

"""Modules that are imported when they are first used: torch alone takes seconds, and many commands need none of it. Those of
optional packages, if they are missing, with an error that says how to install them.

By hand, as lazy_loader is one more package and, like Python's LazyLoader, delays modules but no function or class in one.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clnr.errors import ClnrError

__all__ = ["check_installed", "import_optional", "lazy", "np", "sp", "torch"]


class _Lazy:
    """A stand-in for a module, or for a name in a module: whatever is asked of it, the real one answers."""

    def __init__(self, module: str, name: str | None):
        self._module, self._name = module, name

    def _load(self) -> Any:
        module = import_module(self._module)
        return module if self._name is None else getattr(module, self._name)

    def __getattr__(self, name: str) -> Any:
        if name in ("_module", "_name"):  # Not set yet: a copy in the making.
            raise AttributeError(name)
        return getattr(self._load(), name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._load()(*arguments, **options)

    def __repr__(self) -> str:
        return f"lazy({self._module!r}{'' if self._name is None else f', {self._name!r}'})"


def lazy(module: str, name: str | None = None) -> Any:
    """A module, or a function or class in one, to be used as if it had been imported.

    The type checker is shown the real import, as below.
    """
    return _Lazy(module, name)


if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    import torch
else:
    np, sp, torch = lazy("numpy"), lazy("scipy.sparse"), lazy("torch")


def import_optional(module: str, purpose: str, extra: str | None = None) -> ModuleType:
    """Import a module of an optional package, such as ``matplotlib.figure``; the message says what it is needed for.

    ``extra`` is that of clnr that installs it; if None, the package is installed by its own name.
    """
    try:
        return import_module(module)
    except ImportError:
        raise _missing(module, purpose, extra) from None


def check_installed(module: str, purpose: str, extra: str | None = None) -> None:
    """Raise the error of ``import_optional`` if a module is not installed; it is not imported, which may take long."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, purpose, extra)


def _missing(module: str, purpose: str, extra: str | None) -> ClnrError:
    package = module.partition(".")[0].replace("_", "-")
    wanted = package if extra is None else f"'clnr[{extra}]'"
    return ClnrError(f"{purpose} needs {package}; install it with: pip install {wanted}")

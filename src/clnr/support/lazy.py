"""Modules that are imported when they are first used: torch alone takes seconds, and many commands need none of it.

By hand, as lazy_loader is one more package and, like Python's LazyLoader, delays modules but no function or class in one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


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

    The type checker is shown the real import::

        if TYPE_CHECKING:
            import torch
        else:
            torch = lazy("torch")
    """
    return _Lazy(module, name)

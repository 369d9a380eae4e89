"""Modules of optional packages: if one is missing, an error says how to install it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from clnr.errors import ClnrError


def import_optional(module: str, purpose: str, extra: str | None = None) -> ModuleType:
    """Import a module that is needed for a ``purpose``; the ``extra`` of clnr installs it, or its own name."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        wanted = package if extra is None else f"'clnr[{extra}]'"
        raise ClnrError(f"{purpose} needs {package}; install it with: pip install {wanted}") from None

"""Optional packages: imported where they are used, with an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType

from clnr.errors import ClnrError


def import_optional(module: str, purpose: str, extra: str | None = None) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: Such as ``matplotlib.figure``.
        purpose: What it is needed for, for the message.
        extra: The extra of clnr that installs it; if None, the package is installed by its own name.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        wanted = package if extra is None else f"'clnr[{extra}]'"
        raise ClnrError(f"{purpose} needs {package}; install it with: pip install {wanted}") from None

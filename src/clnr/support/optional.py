"""Optional packages: imported where they are used, with an error that says how to install them."""

from __future__ import annotations

import importlib
import importlib.util
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
        raise _missing(module, purpose, extra) from None


def check_installed(module: str, purpose: str, extra: str | None = None) -> None:
    """Raise the error of ``import_optional`` if a module is not installed; it is not imported, which may take long."""
    if importlib.util.find_spec(module) is None:
        raise _missing(module, purpose, extra)


def _missing(module: str, purpose: str, extra: str | None) -> ClnrError:
    package = module.partition(".")[0].replace("_", "-")
    wanted = package if extra is None else f"'clnr[{extra}]'"
    return ClnrError(f"{purpose} needs {package}; install it with: pip install {wanted}")

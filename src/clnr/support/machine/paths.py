"""Where clnr keeps its files: in the usual folders of the system, or below CLNR_HOME. It takes no platformdirs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from clnr.errors import ClnrError


def cache_folder() -> Path:
    """For what can be had again: downloaded data."""
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches", "cache")


def state_folder() -> Path:
    """For what cannot: the run cache."""
    return _folder("XDG_STATE_HOME", ".local/state", "Library/Application Support", "state")


def _folder(variable: str, elsewhere: str, mac: str, under_home: str) -> Path:
    if home := os.environ.get("CLNR_HOME"):
        return Path(os.path.expanduser(home)).absolute() / under_home
    base = os.environ.get(variable)
    # The XDG specification says to ignore a relative path.
    if base and Path(base).is_absolute():
        return Path(base) / "clnr"
    try:
        return Path.home() / (mac if sys.platform == "darwin" else elsewhere) / "clnr"
    except RuntimeError:
        raise ClnrError("this user has no home folder; set CLNR_HOME to where clnr may keep its files") from None

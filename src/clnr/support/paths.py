"""Where clnr keeps its files: the system's usual folders (by platformdirs), or below CLNR_HOME."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

from clnr.errors import ClnrError


def cache_folder() -> Path:
    """For what can be downloaded again: data sets."""
    return _home("cache") or _user_folder("user_cache_path", ".cache")


def state_folder() -> Path:
    """For what cannot: the run cache."""
    return _home("state") or _user_folder("user_state_path", ".local/state")


def _home(name: str) -> Path | None:
    home = os.environ.get("CLNR_HOME")
    return Path(os.path.expanduser(home)).absolute() / name if home else None


def _user_folder(kind: str, before: str) -> Path:
    try:
        # Before clnr used platformdirs, it kept its files here on Windows.
        if sys.platform == "win32" and (old := Path.home() / before / "clnr").is_dir():
            return old
        folder: Path = getattr(platformdirs, kind)("clnr", appauthor=False)
    except RuntimeError:
        folder = Path()
    if not folder.is_absolute():
        raise ClnrError("this user has no home folder; set CLNR_HOME to where clnr may keep its files")
    return folder

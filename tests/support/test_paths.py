"""Data sets and the run cache go to the system's usual folders, or below CLNR_HOME."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix

from clnr import ClnrError
from clnr.experiments.run_cache import RunCache
from clnr.support.paths import cache_folder, state_folder


@pytest.fixture
def user(tmp_path, monkeypatch) -> Path:
    """A user's home on Linux, with none of the variables set."""
    for name in ("CLNR_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(platformdirs, "PlatformDirs", Unix)
    return tmp_path


def test_linux_folders(user):
    assert cache_folder() == user / ".cache" / "clnr"
    assert state_folder() == user / ".local" / "state" / "clnr"


def test_macos_folders(user, monkeypatch):
    monkeypatch.setattr(platformdirs, "PlatformDirs", MacOS)
    assert cache_folder() == user / "Library" / "Caches" / "clnr"
    assert state_folder() == user / "Library" / "Application Support" / "clnr"


@pytest.mark.parametrize("system", [Unix, MacOS])
def test_xdg_variables_win_over_the_systems_folders(user, monkeypatch, system):
    monkeypatch.setattr(platformdirs, "PlatformDirs", system)
    monkeypatch.setenv("XDG_CACHE_HOME", str(user / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(user / "s"))
    assert cache_folder() == user / "c" / "clnr"
    assert state_folder() == user / "s" / "clnr"


@pytest.mark.parametrize("value", ["relative/place", "~/place", ""])
def test_xdg_variables_that_are_not_an_absolute_path_are_ignored(user, monkeypatch, value):
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("XDG_STATE_HOME", value)
    assert cache_folder() == user / ".cache" / "clnr"
    assert state_folder() == user / ".local" / "state" / "clnr"


def test_clnr_home_wins_over_all(user, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(user / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(user / "s"))
    monkeypatch.setenv("CLNR_HOME", str(user / "all"))
    assert cache_folder() == user / "all" / "cache"
    assert state_folder() == user / "all" / "state"


def test_an_empty_clnr_home_counts_as_not_set(user, monkeypatch):
    monkeypatch.setenv("CLNR_HOME", "")
    assert state_folder() == user / ".local" / "state" / "clnr"


@pytest.mark.parametrize(("value", "place"), [("~/mine", "mine"), ("here", "work/here")])
def test_clnr_home_may_be_relative_or_begin_with_a_tilde(user, monkeypatch, value, place):
    (user / "work").mkdir()
    monkeypatch.chdir(user / "work")
    monkeypatch.setenv("CLNR_HOME", value)
    assert cache_folder() == user / place / "cache"
    assert cache_folder().is_absolute()


def test_asking_for_a_place_makes_nothing(user):
    cache_folder()
    state_folder()
    assert RunCache().path == state_folder() / "runs.sqlite"
    assert list(user.iterdir()) == []


def test_without_a_home_folder_the_error_names_clnr_home(user, monkeypatch):
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    monkeypatch.setitem(sys.modules, "pwd", None)
    for folder in (cache_folder, state_folder):
        with pytest.raises(ClnrError, match="set CLNR_HOME"):
            folder()


def test_folders_of_earlier_versions_stay_in_use_on_windows(user, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    (user / ".local/state/clnr").mkdir(parents=True)
    assert state_folder() == user / ".local" / "state" / "clnr"

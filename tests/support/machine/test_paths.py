"""Caches and records go where the system wants them, or under CLNR_HOME."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clnr.experiments.run_cache import RunCache
from clnr.support.machine.paths import cache_folder, state_folder


@pytest.fixture
def user(tmp_path, monkeypatch) -> Path:
    """A user's home on Linux, with none of the variables set."""
    for name in ("CLNR_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def test_linux_folders(user):
    assert cache_folder() == user / ".cache" / "clnr"
    assert state_folder() == user / ".local" / "state" / "clnr"


def test_macos_folders(user, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == user / "Library" / "Caches" / "clnr"
    assert state_folder() == user / "Library" / "Application Support" / "clnr"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_xdg_variables_win_over_the_systems_folders(user, monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_CACHE_HOME", str(user / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(user / "s"))
    assert cache_folder() == user / "c" / "clnr"
    assert state_folder() == user / "s" / "clnr"


@pytest.mark.parametrize("value", ["relative/place", "~/place", ""])
def test_xdg_variables_that_are_no_absolute_path_are_ignored(user, monkeypatch, value):
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

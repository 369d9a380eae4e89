"""Caches and records go where the system wants them, or under CLNR_HOME."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clnr.errors import ClnrError
from clnr.support.machine.paths import cache_folder, state_folder


@pytest.fixture
def user(tmp_path, monkeypatch) -> Path:
    """A user's home on Linux, with none of the variables set."""
    for name in ("CLNR_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "variables", "cache", "state"),
    [
        ("linux", {}, ".cache/clnr", ".local/state/clnr"),
        ("darwin", {}, "Library/Caches/clnr", "Library/Application Support/clnr"),
        ("linux", {"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/clnr", "/s/clnr"),
        # The XDG specification says to ignore what is no absolute path.
        ("linux", {"XDG_CACHE_HOME": "relative/place", "XDG_STATE_HOME": "~/place"}, ".cache/clnr", ".local/state/clnr"),
        ("linux", {"XDG_CACHE_HOME": "", "CLNR_HOME": ""}, ".cache/clnr", ".local/state/clnr"),
        ("linux", {"XDG_CACHE_HOME": "/c", "CLNR_HOME": "/all"}, "/all/cache", "/all/state"),
        ("linux", {"CLNR_HOME": "~/mine"}, "mine/cache", "mine/state"),
    ],
)
def test_folders(user, monkeypatch, platform, variables, cache, state):
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (cache_folder(), state_folder()) == (user / cache, user / state)


def test_a_user_without_a_home_is_told(user, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(ClnrError, match="set CLNR_HOME"):
        state_folder()

"""What is made once a session is made by one process alone, and again if it failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.session_folders import made_once

pytest.importorskip("fcntl")


def factory(base):
    """As pytest's, of a process of xdist."""
    return SimpleNamespace(getbasetemp=lambda: base)


def test_a_second_process_finds_what_the_first_made(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    calls = []

    def make(folder):
        calls.append(folder)
        (folder / "content").write_text("made")

    for name in ("gw0", "gw1"):
        (tmp_path / name).mkdir()
        assert (made_once(factory(tmp_path / name), "it", make) / "content").read_text() == "made"
    assert calls == [tmp_path / "it"]


def test_what_failed_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def fails(folder):
        (folder / "half").touch()
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        made_once(factory(tmp_path), "it", fails)
    folder = made_once(factory(tmp_path), "it", lambda folder: (folder / "whole").touch())
    assert [path.name for path in folder.iterdir()] == ["whole"]

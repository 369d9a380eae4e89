"""What is made once a session is made by one process alone, and again if it failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.session_folders import made_once

pytest.importorskip("fcntl")


def test_what_failed_is_made_anew_and_a_second_process_finds_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    # As pytest's, of two processes of xdist.
    first, second = (SimpleNamespace(getbasetemp=lambda name=name: tmp_path / name) for name in ("gw0", "gw1"))

    def fails(folder):
        (folder / "half").touch()
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        made_once(first, "it", fails)
    folder = made_once(second, "it", lambda folder: (folder / "whole").touch())
    assert folder == made_once(first, "it", fails) == tmp_path / "it"
    assert [path.name for path in folder.iterdir()] == ["whole"]

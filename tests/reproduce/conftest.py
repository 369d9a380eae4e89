"""The commands of ``reproduce``, called as a shell would, in this process."""

from __future__ import annotations

import sys

import pytest
from reproduce.__main__ import main

from tests.command_line import Ended


@pytest.fixture
def clnr(monkeypatch, capsys):
    def call(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["reproduce", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(ended.value.code, *capsys.readouterr())

    return call

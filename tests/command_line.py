"""The command line, called in this process or in one of its own; and what it must be like when it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

from clnr import cli


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def entry_point(monkeypatch, capsys):
    """Calls the entry point as a shell would, in this process."""

    def call(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["clnr", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as error:
            code = error.code or 0
        return Ended(code, *capsys.readouterr())

    return call


def started(*words: str, **environment: str) -> subprocess.Popen[str]:
    """The same in a process of its own, which goes on."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
    command = [sys.executable, "-m", "clnr", *words]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outside(*words: str, **environment: str) -> Ended:
    """What becomes of it."""
    with started(*words, **environment) as process:
        out, err = process.communicate(timeout=600)
    return Ended(process.returncode, out, err)


def assert_refused(ended: Ended) -> str:
    """Exit code 2, one line on standard error, nothing on standard output; returns the line."""
    assert ended.code == 2
    assert ended.out == ""
    assert re.fullmatch(r"clnr: [^\n]+\n", ended.err), ended.err
    assert "Traceback" not in ended.err
    return ended.err


def only_json(ended: Ended):
    assert ended.code == 0, ended.err
    assert ended.out.count("\n") == 1
    return json.loads(ended.out)

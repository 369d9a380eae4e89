"""The command line, called in this process or in one of its own; and what it must be like when it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
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


def started(*words: str, cwd: Path | None = None, module: str = "clnr", **environment: str) -> subprocess.Popen[str]:
    """The same in a process of its own, which goes on."""
    command = [sys.executable, "-m", module, *map(str, words)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=cwd, env=this_python(**environment), **pipes, text=True)


def run_script(script: str, *words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script of Python in a process of its own, at its end."""
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, cwd=cwd, env=this_python(**environment), capture_output=True, text=True, timeout=600)


def this_python(**environment: str) -> dict[str, str]:
    """An environment in which Python finds what it finds here."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment


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

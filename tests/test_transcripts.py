"""What commands print is what the transcripts in ``tests/transcripts`` show."""

from __future__ import annotations

import difflib
import re

from clnr.cli.app import COMMANDS
from tests.transcripts.__main__ import HERE, transcripts

# Commands without a transcript: most leave the package, and all that env prints is the machine's.
WITHOUT = {"search", "bench", "env", "table", "figure", "paper", "claims"}


def kept():
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(HERE.glob("*.txt"))}


def test_commands_print_what_their_transcripts_show(tmp_path):
    now = transcripts(tmp_path)
    changes = []
    for name, text in kept().items():
        changes += difflib.unified_diff(text.splitlines(), now[name].splitlines(), name, "now", lineterm="")
    assert not changes, "\n".join(["if these changes are right: python -m tests.transcripts", *changes])


def test_each_command_has_a_transcript():
    shown = set(re.findall(r"^\$ clnr (\w+)", "\n".join(kept().values()), re.MULTILINE))
    assert COMMANDS.keys() - shown == WITHOUT

"""What commands print is what the transcripts in ``tests/transcripts`` show."""

from __future__ import annotations

import difflib
import re

from clnr.cli.app import COMMANDS
from tests.transcripts.__main__ import HERE, transcripts

# Without a transcript: those that leave the package, and env, which prints what the machine is.
WITHOUT = {"env"}
KEPT = {file.name: file.read_text(encoding="utf-8") for file in sorted(HERE.glob("*.txt"))}


def test_commands_print_what_their_transcripts_show(tmp_path):
    lines = ["if this is right, write them anew: python -m tests.transcripts"]
    for name, text in transcripts(tmp_path).items():
        lines += difflib.unified_diff(KEPT[name].splitlines(), text.splitlines(), name, "now", lineterm="")
    assert len(lines) == 1, "\n".join(lines)


def test_each_command_has_a_transcript():
    shown = re.findall(r"^\$ clnr (\w+)", "".join(KEPT.values()), re.MULTILINE)
    assert {*COMMANDS} - {*shown} == WITHOUT

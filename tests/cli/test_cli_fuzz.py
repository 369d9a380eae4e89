"""The command line with any words: it ends well or with exit code 2, and never in a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clnr import cli
from clnr.methods import METHODS
from clnr.methods.recipe import recipe_keys
from tests.fuzz import examples

# None of these trains, loads data that is not here, or goes on for long.
pytestmark = pytest.mark.fuzz
COMMANDS = ("ls", "recipe", "runs", "env", "similar", "report", "embed", "nonsense", "")
OPTIONS = (
    *("--json", "--help", "--version", "--method", "--dataset", "--device", "--last", "-k", "--format", "--set", "--seeds"),
    *("--edges", "--nodes", "--out", "--seed", "--dry-run", "--", "-", "-q", "--x"),
)
NAMES = ("methods", "datasets", "CLNR", "clnr", "GCN", "toy", "cora", "photo", "cpu", "cuda", "markdown", "nowhere")
ODD = ("", " ", "\x1b[31m", "\u202e", "\udcff", "-1", "0", "1e999", "nan", "2" * 50, "a=b", "=", "x" * 5000, "~", "%s", "{}")
ASSIGN = st.builds("{}={}".format, st.sampled_from([*recipe_keys()]), st.sampled_from([*ODD, "5", "0.5", "none", "l2"]))
# No operating system hands over a NUL.
TEXTS = st.text(st.characters(exclude_characters="\0"), max_size=12) | st.integers().map(str)
WORDS = st.sampled_from([*OPTIONS, *NAMES, *METHODS]) | st.sampled_from(ODD) | ASSIGN | TEXTS


def ended(words: list[str]) -> tuple[int, str, str]:
    """What a call of the command line comes to, in a folder of its own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        tempfile.TemporaryDirectory() as home,
        mock.patch.dict("os.environ", {"CLNR_HOME": home}),
        mock.patch.object(sys, "argv", ["clnr", *words]),
        mock.patch("clnr.cli.app.out._file", out),
        contextlib.chdir(home),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = cli._main()
        assert [path for path in Path(home).rglob("*") if path.name == "runs.jsonl"] == []
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))


@settings(max_examples=examples(40), deadline=None, derandomize=True)
@given(st.sampled_from(COMMANDS), st.lists(WORDS, max_size=6))
def test_any_words_end_well_or_are_refused_in_one_line(command, words):
    code, out, err = ended([command, *words])
    assert code in (0, 2)
    assert "Traceback" not in err
    if code == 2:
        assert err.startswith("clnr: ") or "Usage: " in out
        assert len(err.splitlines()) <= 1
        assert len(err) < 1100
    elif "--json" in words and "--help" not in words and out:
        json.loads(out)

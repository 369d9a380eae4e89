"""Whatever users' names hold, nothing that a terminal would act on reaches it; JSON stays JSON."""

from __future__ import annotations

import json
import os
import re

import pytest

from clnr.errors import ClnrError, shorten
from clnr.experiments.run_cache import RunCache
from clnr.support.humanize import escape_control
from tests.cli.test_cmd_embed import SMALL
from tests.command_line import assert_refused, entry_point
from tests.experiments.test_run_cache import made

EVIL = "\x1b[2J\x1b]0;title\x07\r\x08\x7f\x9b31m\u202egnp\u2066[bold]:smile:"
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def clnr(monkeypatch, capsys):
    """Calls the entry point; no character that a terminal would act on may come of it."""
    call = entry_point(monkeypatch, capsys)

    def checked(*words):
        ended = call(*words)
        assert not ACTS.search(ended.out), ended.out
        assert not ACTS.search(ended.err), ended.err
        return ended

    return checked


def test_control_characters_are_written_out_and_other_text_is_as_it_was():
    for code in (*range(32), *range(127, 160), 0x61C, 0x200E, 0x2028, 0x202E, 0x2066, 0x2069):
        assert escape_control(f"a{chr(code)}b") == f"a{repr(chr(code))[1:-1]}b"
        assert not ACTS.search(escape_control(chr(code)))
    for text in ("", "plain", "½ Zürich 東京 🙂 a\u200db \\x1b", "שלום"):
        assert escape_control(text) == text


@pytest.mark.parametrize("length", [0, 19, 20, 21, 1000, 100_000])
def test_text_is_shortened_in_the_middle_and_an_error_is_one_line(length):
    text = "".join(chr(ord("a") + i % 26) for i in range(length))
    short, message = shorten(text, 20), str(ClnrError(f"a\n  b\n{text}"))
    assert len(short) == min(length, 20)
    assert short == text or (text.startswith(short[:8]) and text.endswith(short[-7:]) and " ... " in short)
    assert message.startswith("a b")
    assert len(message) == min(length + 4 if length else 3, 1000)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tables with ids, classes, columns and a file name to fear."""
    monkeypatch.chdir(tmp_path)
    ids = [f"{EVIL.replace(chr(13), '')}{i}" for i in range(30)]
    rows = [f"{ids[i]},{ids[(i + step) % 30]}" for i in range(30) for step in (1, 7)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *rows, f"{ids[0]},nobody\x1b[31m"]) + "\n")
    nodes = [f"{each},{i % 5},\x1b[31mclass{i % 2},same" for i, each in enumerate(ids)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,number\x1b[1m,class\x1b[3m,constant\x1b[2m", *nodes]) + "\n")
    return tmp_path


def test_nothing_of_a_users_tables_reaches_the_terminal_raw(clnr, folder):
    tables = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--label", "class\x1b[3m"]
    name = "out\x1b[31m" if os.name == "posix" else "out"
    assert "\\x1b" in clnr("embed", *tables, "--dry-run", "--set", "device=cpu").out
    ended = clnr("embed", *tables, "--out", name, *SMALL, "--no-report", "--no-baselines")
    assert ended.code == 0, ended.err
    node = f"{EVIL.replace(chr(13), '')}3"
    similar = clnr("similar", name, node).out.splitlines()
    assert similar[0].split() == ["id", "cosine", "linked", "class\\x1b[3m"]
    assert "\\x1b[2J" in similar[1]
    labels = {each["label"] for each in json.loads(clnr("similar", name, node, "--json").out)}
    assert set() < labels <= {"\x1b[31mclass0", "\x1b[31mclass1"}
    assert "\\x1b" in assert_refused(clnr("similar", name, "\x1b[5mnobody"))


WORDS = [
    ["recipe", "CLNR", "\u202ecora"],
    ["run", "CLNR", "toy", "--set", "\x1b[31m=5"],
    ["\x1b[31m"],
    ["runs", "--last", "\x1b[31m"],
    ["embed", "--edges", "no\x1b[31mwhere.csv", "--out", "o"],
]


@pytest.mark.parametrize("words", WORDS, ids=ascii)
def test_wrong_words_are_repeated_visibly_and_in_part(clnr, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(clnr(*words))
    assert_refused(long := clnr(*(word.replace("\x1b", "\x1b" * 100_000) for word in words)))
    assert len(long.err) < 1100


def test_a_record_that_somebody_else_wrote_is_shown_visibly(clnr):
    RunCache().add("key", made(method=EVIL, machine=EVIL, recipe={"a\x1b": "\x1b"}, versions={"code": "\x1b[31m"}))
    assert "\\x1b[2J" in clnr("runs").out
    assert clnr("runs", "--json").code == 0

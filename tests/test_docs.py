"""The documentation is followed to the letter: what it says to type is typed, and what it is made from is what is there."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from tests.test_cli import entry_point

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, kind: str) -> list[tuple[str, str]]:
    """Blocks of code of a kind, each with the text before it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(text[: match.start()], match[1]) for match in re.finditer(rf"```{kind}\n(.*?)```", text, re.DOTALL)]


@pytest.fixture
def clnr(monkeypatch, capsys):
    return entry_point(monkeypatch, capsys)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """The tutorial's tables, each named in the line before it."""
    monkeypatch.chdir(tmp_path)
    for before, content in blocks("your-graph.md", "csv"):
        (tmp_path / re.findall(r"`([\w-]+\.csv)`:", before)[-1]).write_text(content)
    return tmp_path


def test_the_tutorials_commands_work_in_their_order(clnr, tables):
    lines = [line for _, block in blocks("your-graph.md", "console") for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "clnr"
        ended = clnr(*words)
        assert ended.code == 0, ended.err
    assert "fritz" in ended.out or "hugo" in ended.out
    for name in re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", (DOCS / "your-graph.md").read_text(), re.MULTILINE):
        for file in re.findall(r"`([\w.]+)`", name):
            assert (tables / "valley" / file).is_file()


def test_what_the_tutorial_shows_is_what_is_said(clnr, tables):
    ((_, shown),) = blocks("your-graph.md", "text")
    said = clnr("embed", "--edges", "trades.csv", "--nodes", "people.csv", "--plan").out
    for line in shown.splitlines():
        assert line.removesuffix("...") in said


@pytest.mark.parametrize("page", ["your-graph.md"])
def test_the_pages_python_runs(page, tables, capsys):
    for _, block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out


def test_the_api_page_is_made_from_todays_docstrings():
    spec = importlib.util.spec_from_file_location("make_api", DOCS / "make_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.text() == (DOCS / "api.md").read_text(encoding="utf-8"), "run: python docs/make_api.py"


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_lead_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert (DOCS / target).exists(), target

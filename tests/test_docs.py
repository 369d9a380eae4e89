"""The documentation is followed to the letter: what it says to type is typed, and what it is made from is what is there."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from clnr.datasets import DATASETS
from tests.cli.test_cli import entry_point
from tests.conftest import tiny

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
    said = clnr("embed", "--edges", "trades.csv", "--nodes", "people.csv", "--dry-run").out
    for line in shown.splitlines():
        assert line.removesuffix("...") in said


def test_the_tutorials_python_runs(tables, capsys):
    for _, block in blocks("your-graph.md", "python"):
        exec(compile(block, "your-graph.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    """On a small graph in place of Cora, whose sizes are those of the catalogue."""
    monkeypatch.chdir(tmp_path)
    cora, names = DATASETS["cora"], {"graph": tiny()}
    sizes = f"{cora.nodes} nodes, {cora.edges} edges, {cora.features} sparse features, {cora.classes} classes"
    first, second = (block for _, block in blocks("../README.md", "python"))
    assert f'load("cora")  # Graph(cora: {sizes})' in second
    for block in (
        first,
        second.replace('load("cora")', "graph").replace("range(20)", "range(2)").replace("epochs=100", "epochs=5"),
    ):
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "my-graph" / "recipe.toml").is_file()
    assert names["z"].shape[0] == 40
    assert [run.seed for run in names["many"]] == [0, 1]
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_python_of_the_page_on_data_runs(tables):
    import pyarrow.csv
    import pyarrow.parquet

    Path("trades.csv").rename("edges.csv")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv("people.csv"), "nodes.parquet")
    ((_, block),) = blocks("data.md", "python")
    names: dict = {}
    exec(compile(block, "data.md", "exec"), names)
    assert names["z"].shape[0] == names["graph"].num_nodes == 10


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

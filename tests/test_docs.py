"""The documentation is followed to the letter: what it says to type is typed, and what it is made from is what is there."""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from typer.main import get_command

import clnr
from clnr import NodeEmbedder, read_tables
from clnr.cli import app
from clnr.datasets import DATASETS
from clnr.datasets.demo import write_demo
from tests.conftest import tiny

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COMMANDS = get_command(app).commands
HIDDEN = re.compile(r"\.|site$|dist$")
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in ROOT.rglob("*.md")
    if not any(HIDDEN.match(part) for part in path.relative_to(ROOT).parts)
)


_NAMES = ["anna", "ben", "carl", "dora", "emil", "fritz", "gina", "hugo", "ida", "jan"]
PEOPLE = pyarrow.table({"id": _NAMES, "years": [12, 30, 25, 3, 8, 20, 5, 11, 16, 2]})
_PAIRS = [(a, b) for a in range(10) for b in range(a) if a // 5 == b // 5 and a + b != 9] + [(4, 5)]
TRADES = pyarrow.table({end: [_NAMES[pair[place]] for pair in _PAIRS] for place, end in enumerate(("source", "target"))})


def blocks(page: str, kind: str) -> list[tuple[str, str]]:
    """Blocks of code of a kind, each with the text before it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(text[: match.start()], match[1]) for match in re.finditer(rf"```{kind}\n(.*?)```", text, re.DOTALL)]


def run_python(page: str, *changes: tuple[str, str], position: int = 0, **names: Any) -> dict[str, Any]:
    """The names that a block of a page leaves, with texts in it replaced that all must be there."""
    _, block = blocks(page, "python")[position]
    for old, new in changes:
        assert old in block, old
        block = block.replace(old, new)
    exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """The tutorial's tables, each named in the line before it, and the shop."""
    monkeypatch.chdir(tmp_path)
    write_demo(tmp_path / "shop")
    for before, content in blocks("tutorial.md", "csv"):
        (tmp_path / re.findall(r"`([\w-]+\.csv)`:", before)[-1]).write_text(content)
    return tmp_path


@pytest.mark.full
def test_the_tutorials_commands_work_in_their_order_and_print_what_it_shows(clnr, tables):
    lines = [line for _, block in blocks("tutorial.md", "console") for line in block.replace("\\\n", "").splitlines()]
    assert lines.pop(0) == "clnr demo shop"
    assert len(lines) == 7
    ((_, shown),) = blocks("tutorial.md", "text")
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "clnr"
        ended = clnr(*words)
        assert ended.code == 0, ended.err
        if words[0] == "embed":
            assert [line for line in shown.splitlines() if line.removesuffix("...") not in ended.err] == []
    assert "product:79" in ended.out
    for name in re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \|", (DOCS / "tutorial.md").read_text(), re.MULTILINE):
        for file in re.findall(r"`([\w.]+)`", name):
            assert (tables / "vectors" / file).is_file()


@pytest.mark.full
def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    """On a small graph in place of Cora, with fewer epochs."""
    monkeypatch.chdir(tmp_path)
    quick = "NodeEmbedder(dimension=64,", "NodeEmbedder(dimension=64, epochs=3,"
    names = run_python("../README.md", ('run("CLNR", "cora"', 'run("CLNR", small'), quick, small=tiny())
    assert (tmp_path / "my-graph" / "recipe.toml").is_file()
    assert names["z"].shape == (2400, 64)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_readme_fits_two_screens_and_the_citation_names_this_version():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110
    assert f"\nversion: {clnr.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.full
def test_the_python_of_the_page_on_reproducing_runs(capsys):
    """On a small graph in place of Cora, whose sizes are those of the catalogue."""
    cora = DATASETS["cora"]
    sizes = f"{cora.nodes} nodes, {cora.edges} edges, {cora.features} sparse features, {cora.classes} classes"
    small = f'load("cora")  # Graph(cora: {sizes})', "small"
    quick = ("range(20)", "range(2)"), ("epochs=100", "epochs=5")
    names = run_python("guides/reproducing.md", small, *quick, small=tiny())
    assert names["z"].shape[0] == 40
    assert [run.seed for run in names["many"]] == [0, 1]
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.full
def test_the_python_of_the_tutorial_and_of_the_page_on_methods_runs(tables, capsys):
    """On smaller graphs in place of the built-in one."""
    pytest.importorskip("torch_geometric")
    for page, small in (("tutorial.md", tiny(nodes=90, edges=200)), ("methods.md", tiny())):
        for _, block in blocks(page, "python"):
            exec(compile(block.replace('load("toy")', "small"), page, "exec"), {"small": small})
        printed = capsys.readouterr().out
    assert printed == "(40, 64)\n"


@pytest.mark.full
def test_tables_of_the_page_on_tables_become_the_edges_and_lines_that_it_shows(clnr, tmp_path, monkeypatch):
    """A picture has tables, each below its name, and last the edges; the block after a command has lines of its output."""
    monkeypatch.chdir(tmp_path)
    graphs, said, seen = [], "", 0
    monkeypatch.setattr("clnr.tables.read_tables", lambda **tables: graphs.append(read_tables(**tables)) or graphs[-1])
    page = (DOCS / "guides/your-tables.md").read_text(encoding="utf-8")
    for picture, command in re.findall(r"```text\n((?s:.*?))```|^    (clnr (?:.*\\\n)*.*)$", page, re.MULTILINE):
        lines = picture.splitlines()
        if command:
            said = clnr(*shlex.split(command.replace("\\\n", ""))[1:]).out
        elif lines[0].endswith("edges"):
            starts = [match.start() for match in re.finditer(r"\S+", lines[0])]
            *tables, wanted = ([line[a:b].rstrip() for line in lines] for a, b in zip(starts, [*starts[1:], None], strict=True))
            for name, *rows in tables:
                if "/" not in name:
                    Path(name).write_text("\n".join(filter(None, rows)))
        else:
            assert [line for line in lines if line != "..." and line not in said.splitlines()] == []
            ids, (source, target, weight) = graphs[-1].ids, graphs[-1].edges()
            weights = [""] * len(source) if weight is None else [f", weight {each:g}" for each in weight]
            edges = {f"{ids[a]} - {ids[b]}{w}" for a, b, w in zip(source, target, weights, strict=True)}
            assert {*filter(None, wanted[1:])} <= edges
            seen += 1
    assert seen == 5
    names = run_python("guides/your-tables.md", ("epochs=5", "epochs=1, dimension=8"))
    assert names["embedder"].ids_[-1] == "product:100"


@pytest.mark.full
def test_the_python_of_the_page_on_unseen_nodes_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    NodeEmbedder(dimension=8, epochs=2).fit(read_tables(TRADES, PEOPLE)).save("my-graph")
    Path("new-edges.csv").write_text("source,target\nkarl,fritz\nkarl,ida\n")
    pyarrow.parquet.write_table(pyarrow.table({"id": ["karl"], "years": [1]}), "new-nodes.parquet")
    run_python("guides/unseen-nodes.md", ("paper:9999", "karl"))
    assert "fritz" in capsys.readouterr().out
    assert Path("my-graph-new", "recipe.toml").is_file()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """People, embedded into ``my-graph``, and the three that are most similar to anna."""
    folder = tmp_path_factory.mktemp("exported")
    embedder = NodeEmbedder(effort="quick", dimension=8).fit(read_tables(TRADES, PEOPLE))
    embedder.save(folder / "my-graph")
    return folder, embedder.similar("anna", 3)


EXPORTS = ("pandas", "polars", "duckdb", "faiss", "lancedb", "gensim", "torch", "duckdb")
"""The library that each block of the page on exporting needs."""


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("position", "library"), [*enumerate(EXPORTS)])
def test_the_python_of_the_page_on_exporting_finds_what_is_near(exported, monkeypatch, position, library):
    """Where the library is installed; otherwise it is compiled."""
    (folder, nearest), shown = exported, blocks("guides/exporting.md", "python")
    assert len(shown) == len(EXPORTS)
    compile(shown[position][1], "exporting.md", "exec")
    pytest.importorskip(library)
    monkeypatch.chdir(folder)
    names = run_python("guides/exporting.md", position=position)
    if "near" not in names:
        assert Path("my-atlas.parquet").is_file()
        return
    near = names["near"]
    found = list(near.items()) if hasattr(near, "items") else near
    assert [name for name, _ in found] == [name for name, _ in nearest]
    assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in nearest], abs=1e-5)


def commands() -> list[str]:
    """Every command of this package that a page tells the reader to type."""
    return sorted({line for page in PAGES for line in re.findall(r"^ {4,}(clnr .*)$", (ROOT / page).read_text(), re.MULTILINE)})


def test_commands_and_their_options_exist():
    for line in commands():
        for words in " ".join(line.split(" #")[0].split()).split("; "):
            name, *rest = words.removeprefix("clnr ").split()
            options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= options, line


ELSEWHERE = {"--fix", "--group", "--help", "--methods", "--pyg-loss", "--strict"}
"""Options of benchmarks and of other programs."""


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere_and_lines_and_options_are_right(page):
    """Options of before a release are the changelog's."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert ((ROOT / page).parent / target).exists(), target
    assert [line for line in text.splitlines() if len(line) > 120] == []
    parameters = [parameter for command in COMMANDS.values() for parameter in command.params]
    known = {option for each in parameters for option in (*each.opts, *each.secondary_opts)} | ELSEWHERE
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    inline = [word for code in re.findall(r"`([^`\n]+)`", prose) if "benchmarks." not in code for word in code.split()]
    assert page == "CHANGELOG.md" or {word for word in inline if re.fullmatch(r"--[a-z-]+", word)} <= known


def test_the_api_page_has_every_public_name_and_what_pages_import_is_there():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in clnr.__all__:
        assert name == "__version__" or re.search(rf"^::: clnr\.{name}$|`clnr\.{name}`", text, re.MULTILINE), name
    shown = {f"from {module} import {name}" for module, name in re.findall(r"^::: (clnr[\w.]*)\.(\w+)$", text, re.MULTILINE)}
    # A line of Python, maybe with names in parentheses on several lines.
    imports = re.compile(r"^ *(from clnr[\w.]* import (?:\([^)]*\)|[\w, ]+))$", re.MULTILINE)
    shown |= {line for page in PAGES for line in imports.findall((ROOT / page).read_text(encoding="utf-8"))}
    assert len(shown) > 20
    for line in shown:
        exec(line, {})


def rows_of(page: str) -> list[list[str]]:
    """The cells of all rows of the tables of a page."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def csv_rows(name: str) -> list[dict[str, str]]:
    with (DOCS / "paper" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def recorded(protocol: str) -> dict[str, list[float]]:
    """The means of table 2 by methods, in the order of its data sets; NaN where there is none."""
    rows = [row for row in csv_rows("table-2.csv") if row["Protocol"] == protocol]
    sets = ("Cora", "CiteSeer", "PubMed", "Computers", "Photo", "CS", "Physics")
    return {row["Method"]: [mean_of(row[name]) for name in sets] for row in rows}


def mean_of(cell: str) -> float:
    mean = re.match(r"\**(\d+\.\d+)", cell)
    return float(mean[1]) if mean else math.nan


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/paper/README.md"])
def test_accuracies_are_those_of_table_2(page):
    strict, published = recorded("strict"), recorded("published")
    compared = 0
    for name, *cells in rows_of(page):
        method = name.split(",")[0]
        if len(cells) != 7 or method not in strict:
            continue
        for cell, ours, theirs in zip(cells, strict[method], published.get(method, [math.nan] * 7), strict=True):
            assert mean_of(cell) == pytest.approx(ours, abs=0.051, nan_ok=True), (name, cell)
            beside = re.search(r"\(([\d.]+)\)$", cell)
            assert beside is None or float(beside[1]) == theirs, (name, cell)
        compared += 1
    assert compared


@pytest.mark.parametrize("page", ["README.md", "docs/paper/README.md"])
def test_the_number_of_claims_that_hold_is_that_of_the_claims(page):
    verdicts = Counter({row["claim"]: row["verdict"] for row in csv_rows("claims.csv")}.values())
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    counts = rf"{verdicts['holds']} hold, {verdicts['fails']} fail and {verdicts['undecided']} (?:is|are) undecided"
    assert re.search(counts, text), counts

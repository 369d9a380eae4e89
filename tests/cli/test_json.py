"""What ``--json`` prints is what docs/json.md says, key by key: none is missing, none is undocumented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from clnr.cli import app
from clnr.cli.app import JSON_FORMAT
from tests.command_line import entry_point, only_json

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
PLACEHOLDER = re.compile(r"\b(KEY|METHOD|PACKAGE|SCORE|STAGE)\b")
TYPES = {"boolean", "integer", "number", "text", "object", "null", "list of number", "list of text"}
COMMANDS = get_command(app).commands
QUIET = ["--device", "cpu", "--json", "-q"]
EMBED = ["--set", "device=cpu", "--json"]
# A GPU is not here.
UNSEEN = {"device_peak_bytes"}


def rows_of(section: str) -> dict[str, set[str]]:
    """The types of each key in a section of the page; keys of shared tables come in place of the row that refers to them."""
    text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert text is not None, f"docs/json.md has no section '{section}'"
    rows: dict[str, set[str]] = {}
    for line in re.findall(r"^- (.*)$", text[1], re.MULTILINE):
        keys, types = re.fullmatch(r"(`[^(:]*`)(?: \(([\w ]+)\))?: .+", line).groups(default="")
        for key in re.findall("`(.*?)`", keys):
            assert key not in rows
            if key == "graph.KEY":
                rows |= rows_of("The graph")
            elif key == "methods[].KEY":
                rows |= {f"methods[].{each}": kinds for each, kinds in rows_of("clnr run").items()}
            else:
                rows |= rows_of("Scores") if key.endswith(".SCORE") else {}
                rows[key] = set(types.split(" or "))
                assert rows[key] <= TYPES, line
    return rows


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and the type of all that is in a JSON value."""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text", type(None): "null"}
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}" if path else key)
    elif not isinstance(value, list):
        yield path, kinds[type(value)]
    elif any(isinstance(each, dict) for each in value):
        for each in value:
            yield from leaves(each, f"{path}[]")
    else:
        yield from ((path, f"list of {kinds[type(each)]}") for each in value)


def check(section: str, *printed: Any, unseen: set[str] = UNSEEN) -> None:
    rows, seen = rows_of(section), set()
    pattern = {key: re.compile(PLACEHOLDER.sub(r"[^.\\[\\]]+", re.escape(key))) for key in rows}
    named = [key for key in rows if not key.endswith(".SCORE")]
    found = {leaf for each in printed for leaf in leaves(each)}
    for path, kind in sorted(found - {("format", "integer")}):
        of_scores = next((each for each in rows if each.endswith(".SCORE") and pattern[each].fullmatch(path)), None)
        if of_scores is not None:
            seen.add(of_scores)
            path = f"scores.{path.rpartition('.')[2]}"
        key = path if path in rows else next((each for each in named if pattern[each].fullmatch(path)), None)
        assert key is not None, f"{section} --json: {path} is not in docs/json.md"
        # 2.0 may be written as 2.
        widened = {kind, kind.replace("integer", "number")}
        assert widened & rows[key], f"{section} --json: {path} is {kind}, and docs/json.md says {rows[key]}"
        seen.add(key)
    paths = [path for path, _ in found]
    empty = {key for key in rows if "object" in rows[key] and any(path.startswith(f"{key}.") for path in paths)}
    lists = {key for key, kinds in rows.items() if any(kind.startswith("list") for kind in kinds) and _has_empty(printed, key)}
    assert rows.keys() - seen - empty - lists <= unseen, f"{section} --json no longer has these"
    for each in printed:
        assert isinstance(each, list) or each["format"] == JSON_FORMAT


def _has_empty(printed: tuple[Any, ...], key: str) -> bool:
    """Whether there is a list at a key of the first level, with nothing in it."""
    return any(isinstance(each, dict) and each.get(key) == [] for each in printed)


def test_every_command_with_json_has_its_section():
    options = {name: {option for each in command.params for option in each.opts} for name, command in COMMANDS.items()}
    sections = re.findall(r"^## clnr (\w+)(?: .*)?$", PAGE, re.MULTILINE)
    assert set(sections) == {name for name in COMMANDS if "--json" in options[name]}
    assert f"the version of this page: **{JSON_FORMAT}**" in PAGE


def test_lists_recipes_and_the_environment(clnr):
    check("clnr ls methods", only_json(clnr("ls", "methods", "--json")))
    check("clnr ls datasets", only_json(clnr("ls", "datasets", "--json")))
    check("clnr recipe", *(only_json(clnr("recipe", "CLNR", each, "--json")) for each in ("cora", "toy")))
    check("clnr env", only_json(clnr("env", "--json")))


def test_runs_and_comparisons(clnr):
    small = ["--set", "hidden=8", "--set", "probe_steps=5"]
    for epochs in ("0", "2"):
        ran = ["run", "CLNR", "toy", "--set", "dimension=4", "--set", f"epochs={epochs}", *small, *QUIET]
        check("clnr run", only_json(clnr(*ran)), unseen=set())
    compared = ["compare", "toy", "--methods", "CLNR,GRACE", "--seeds", "2", *ran[3:7], *small]
    check("clnr compare", only_json(clnr(*compared, *QUIET)))
    check("clnr runs", only_json(clnr("runs", "--json")))


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """Two groups of nodes with two labels and names, and an edge to a new node."""
    folder = tmp_path_factory.mktemp("tables")
    edges = [(a, (a + 2 * step) % 60) for a in range(60) for step in (1, 2, 5)]
    (folder / "e.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in edges))
    (folder / "n.csv").write_text("id,label,age,name\n" + "".join(f"{i},{i % 2},{i % 7},node {i}\n" for i in range(60)))
    (folder / "new.csv").write_text("source,target\n90,1\n90,3\n")
    return folder


@pytest.mark.full
@pytest.mark.usefixtures("bounded_from_files")
def test_a_graph_of_ones_own(monkeypatch, capsys, tables, tmp_path):
    monkeypatch.chdir(tables)
    clnr = entry_point(monkeypatch, capsys)
    named = ["--edges", "e.csv", "--nodes", "n.csv", "--label", "label", "--name", "name"]
    sampled = ["--set", "epochs=2", "--set", "dimension=8", "--set", "moments=sampled", "--set", "sampled_nodes=30"]
    graph, model, new = tmp_path / "graph", tmp_path / "model", ["--edges", "new.csv"]
    check("clnr ingest", only_json(clnr("ingest", *named, "--out", str(graph), "--json", "-q")))
    from_files = ["embed", "--graph", str(graph), "--memory", "1 GB", *sampled, *EMBED]
    in_memory = ["embed", *named, "--set", "epochs=2", "--set", "dimension=8", *EMBED]
    extended = ["transform", str(model), *new, *QUIET]
    plain = ["embed", "--edges", "e.csv", "--effort", "quick", "--set", "hold_out=0", "--no-baselines", *EMBED]
    outputs = {model: in_memory, tmp_path / "files": from_files, tmp_path / "more": extended, tmp_path / "plain": plain}
    made = {out: only_json(clnr(*words, "--no-report", "--out", str(out))) for out, words in outputs.items()}
    check("clnr transform", made.pop(tmp_path / "more"))
    check("clnr embed", *made.values())
    assert only_json(clnr(*extended, "--dry-run")).keys() == {"format", "graph", "new_nodes", "columns", "warnings"}
    ahead = [in_memory, from_files, plain, [*from_files, "--workers", "2", "--set", "method=CLNR"]]
    check("clnr embed --dry-run", *(only_json(clnr(*words, "--dry-run")) for words in ahead))
    found = [only_json(clnr("clusters", str(folder), "--json", *k)) for folder in outputs for k in ([], ["-k", "2"])]
    check("clnr clusters", *found)
    check("clnr similar", *(only_json(clnr("similar", str(folder), "5", "--json")) for folder in outputs))

"""A first command on tables that nobody prepared: what is read, or the facts of the refusal.

Each file of cases/ is a case; cases/README.md has their form.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from clnr.tables import read_tables
from clnr.tables.kinds import NODE_KIND

CASES = Path(__file__).parent / "cases"


class Differs(Exception):
    """What the program does is not what is right; an error of the test itself is any other exception."""


@pytest.fixture
def reads(monkeypatch):
    """What a command in this process reads tables as."""
    found = []

    def read(**tables):
        found.append(read_tables(**tables))
        return found[-1]

    monkeypatch.setattr("clnr.tables.read_tables", read)
    return found


def _parts():
    """Each command of each case, with what is right of it."""
    for path in sorted(CASES.glob("*.toml")):
        case = tomllib.loads(path.read_text(encoding="utf-8"))
        for name in ("right", "then"):
            if name not in case:
                continue
            part = dict(case[name])
            command = part.pop("command", case["command"])
            where = path.stem if name == "right" else f"{path.stem}-then"
            files = case.get("files", path.stem.removeprefix("real-"))
            yield pytest.param(files, command, part, id=where)


@pytest.mark.parametrize(("files", "command", "right"), list(_parts()))
def test_a_command_reads_what_is_right(files, command, right, clnr, reads, tmp_path, monkeypatch, request):
    if isinstance(files, str):
        folder = request.getfixturevalue("real_data") / "tables" / files
    else:
        folder = _written(tmp_path / "tables", files)
    monkeypatch.chdir(folder)
    _compare(right, _outcome(clnr, shlex.split(command), reads))


def test_every_table_of_strangers_has_a_case(real_data):
    cases = {path.stem.removeprefix("real-") for path in CASES.glob("real-*.toml")}
    assert {path.name for path in (real_data / "tables").iterdir()} == cases


def _written(folder, files):
    """The files of a case: text in an encoding, gzip by their ending, or rows of Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for name, content in files.items():
        if name.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(content), folder / name)
            continue
        given = {"text": content} if isinstance(content, str) else content
        data = given["text"].encode(given.get("encoding", "utf-8"))
        (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


def _outcome(clnr, words, reads):
    """The facts of a command: its exit code, and what it reads or what it says."""
    assert words[:2] == ["clnr", "embed"]
    ended = clnr(*words[1:], "--dry-run", "--json")
    if ended.code:
        return {"exit": ended.code, "out": ended.out, "err": ended.err}
    plan = json.loads(ended.out)
    (read,) = reads
    return {
        "exit": 0,
        "lines": [*plan["columns"], *plan["warnings"], *plan["notes"], *ended.err.splitlines()],
        **{name: plan["graph"][name] for name in ("nodes", "edges", "directed")},
        "isolated": plan["graph"]["nodes_without_edges"],
        "classes": plan["graph"].get("classes", 0),
        "labelled": plan["graph"].get("labelled_nodes", 0),
        **_facts(read),
    }


def _facts(read):
    """What ``--json`` does not have."""
    ids = [str(each) for each in read.node_ids.tolist()]
    _, _, weights = read.edges()
    columns, ends = {}, {"source": set(), "target": set(), "weight": set()}
    for each in read.info.columns:
        table, _, kind = each.table.partition(" ")
        if table == "edges":
            ends.get(each.role, set()).add(each.column)
        elif each.column != NODE_KIND:
            found = f"{each.type} {each.features}" if each.features else each.role
            columns[f"{kind}.{each.column}" if kind else each.column] = found
    return {
        "ids": ids,
        "kinds": Counter(each.partition(":")[0] for each in ids if read.info.node_kinds),
        "total_weight": None if weights is None else weights.sum() / (1 if read.directed else 2),
        "columns": columns,
        **{role: sorted(names) for role, names in ends.items()},
    }


def _compare(right, found):
    """Raise ``Differs`` unless every fact that is right was found."""
    wrong = {}
    if right["exit"] != found["exit"]:
        raise Differs(f"exit code {found['exit']} in place of {right['exit']}: {found.get('err') or found}")
    for name, wanted in right.items():
        if name == "facts":
            first_line = found["err"].splitlines()[0]
            ok = not found["out"] and all(_has(first_line, *fact) for fact in wanted.items())
        elif name == "lists":
            ok = all(_has(found["err"], "", each) for each in wanted)
        elif name == "lacks":
            ok = all(each not in found["err"] for each in wanted)
        elif name == "says":
            ok = any(all(_has(line, *fact) for fact in wanted.items()) for line in found["lines"])
        elif name == "ids":
            ok = set(wanted) <= set(found["ids"])
        elif name == "columns":
            columns = found["columns"]
            same_names = wanted.keys() == columns.keys()
            ok = same_names and all(_is_read_as(wanted[each], columns[each]) for each in wanted)
        elif name == "total_weight":
            ok = found[name] is not None and found[name] == pytest.approx(wanted)
        else:
            ok = found[name] == ([wanted] if name in ("source", "target", "weight") else wanted)
        if not ok:
            wrong[name] = (wanted, found["err"] if found["exit"] else found.get(name, found["lines"]))
    if wrong:
        lines = (f"{name}: {wanted!r} is right, not {other!r}" for name, (wanted, other) in wrong.items())
        raise Differs("\n".join(lines))


def _has(line, key, fact):
    """Whether a line has a fact: a whole word or number; those of rows and lines stand behind that word."""
    before = rf"\b{key}\W+" if key in ("row", "line") else r"(?<!\w)"
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", line)
    return re.search(rf"{before}{re.escape(str(fact))}(?!\w)", plain) is not None


def _is_read_as(wanted, found):
    """``any``: the rules leave it open; ``feature``: as a feature of any type."""
    is_feature = found.split()[-1].isdigit()
    return wanted == "any" or (is_feature if wanted == "feature" else wanted == found)

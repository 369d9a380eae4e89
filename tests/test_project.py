"""For those who join: workflows run what a contributor can run, and the changelog has a line for each change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))

checkout = pytest.mark.skipif(not WORKFLOWS, reason="not in a checkout")


def jobs() -> dict[str, dict]:
    return {name: job for path in WORKFLOWS for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()}


def commands() -> list[str]:
    steps = [step for job in jobs().values() for step in job["steps"]]
    return [line.strip() for step in steps for line in step.get("run", "").splitlines() if line.strip()]


@checkout
def test_every_command_is_one_of_contributing():
    told = [line.split("#")[0].strip() for line in re.findall("^    (.*)$", TEXT, re.MULTILINE)]
    assert commands()
    for command in commands():
        if command.startswith("make "):
            assert set(command.split()[1:]) <= TARGETS, command
        else:
            assert command in told, command


def test_targets_that_contributing_names_exist():
    named = re.findall(r"(?:^    |`)make ([a-z-]+)", TEXT, re.MULTILINE) + re.findall(r"; make ([a-z-]+):", TEXT)
    assert len(named) > 5
    assert set(named) <= TARGETS
    assert set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()) == TARGETS


@checkout
def test_files_that_commands_name_exist():
    lines = [*commands(), *re.findall("^\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)]
    named = [word for line in lines for word in re.findall(r"(?<![\w/.])(?:[\w-]+/)*[\w-]+\.(?:txt|toml|py|md)\b", line)]
    assert "constraints.txt" in named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_changelog_has_themes_and_a_line_for_each_change():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *versions = text.split("\n## ")
    for version in versions:
        _, *lines = filter(None, version.splitlines())
        assert [line for line in lines if not line.startswith(("### ", "- "))] == []
        themes = re.findall("^### (.*)$", version, re.MULTILINE)
        assert len(themes) == len(set(themes))
    changes = re.findall("^- .*$", text, re.MULTILINE)
    assert len(changes) == len(set(changes))

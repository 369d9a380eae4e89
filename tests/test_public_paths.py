"""Imports that README, CONTRIBUTING and the pages of docs show: each can be done."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A line of Python, maybe with names in parentheses on several lines.
IMPORT = re.compile(r"^ *(from clnr[\w.]* import (?:\([^)]*\)|[\w, ]+))$", re.MULTILINE)


def test_every_import_of_the_docs_can_be_done():
    shown = {line for page in PAGES for line in IMPORT.findall(page.read_text(encoding="utf-8"))}
    assert len(shown) > 10
    for line in shown:
        (statement,) = ast.parse(line).body
        for alias in statement.names:
            assert hasattr(import_module(statement.module), alias.name), line


def test_every_name_of_the_reference_can_be_imported():
    names = re.findall(r"^::: (clnr[\w.]*)\.(\w+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert names
    assert [f"{module}.{name}" for module, name in names if not hasattr(import_module(module), name)] == []

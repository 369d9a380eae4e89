"""The examples of docstrings are run as they stand there."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import clnr

SOURCE = Path(clnr.__file__).parent
TEXTS = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
FILES = [name for name, text in TEXTS.items() if ">>> " in text]


@pytest.mark.full
@pytest.mark.parametrize("file", FILES)
def test_examples_are_as_they_say(file):
    module = importlib.import_module(".".join(["clnr", *Path(file).with_suffix("").parts]))
    cases = doctest.DocTestFinder().find(module)
    assert sum(len(case.examples) for case in cases) == TEXTS[file].count(">>> "), "some example is not found"
    runner = doctest.DocTestRunner()
    said: list[str] = []
    for case in cases:
        runner.run(case, out=said.append)
    assert not runner.failures, "".join(said)

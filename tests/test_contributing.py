"""CONTRIBUTING.md is followed to the letter: its code is run, block by block, as a reader would."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

from clnr import METHODS, recipe_for, run
from clnr.methods import Architecture
from clnr.methods.presets import Published
from clnr.methods.recipe import Recipe, recipe_keys
from tests.command_line import entry_point

pytestmark = pytest.mark.full
TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def followed():
    """What a reader's session holds after typing all of it, with fewer epochs than the text's, and narrower."""
    session = sys.modules["reader"] = types.ModuleType("reader")
    for block in BLOCKS:
        typed(re.sub(r"epochs=\d+", "epochs=8, hidden=64, dimension=64, probe_steps=300", block), vars(session))
    yield vars(session)
    del sys.modules["reader"]


def typed(block, names):
    exec(compile(block, "CONTRIBUTING.md", "exec", dont_inherit=True), names)


def test_the_new_part_passes_the_test_that_the_text_gives_it_and_a_wrong_one_would_not(followed):
    followed["test_barlow_twins"]()
    right = followed["BarlowTwins"]
    wrong = type("Wrong", (right,), {"__call__": lambda *given: 2 * right.__call__(*given)})
    names = {**followed, "BarlowTwins": wrong}
    typed(next(block for block in BLOCKS if "def test_barlow_twins" in block), names)
    with pytest.raises(AssertionError):
        names["test_barlow_twins"]()


def test_the_new_methods_train_and_are_no_part_of_the_package(followed):
    assert followed["GBT"].architecture() == Architecture("F-F", False, False, False, False)
    assert followed["GBT"].ancestry == ("G-BT", "CLNR")
    assert followed["result"].method == "G-BT"
    assert followed["result"].strict > run("Raw", "toy", recipe=recipe_for("Raw", "toy").but(probe_steps=300)).strict
    assert not {"G-BT", "adaptive"} & set(METHODS)


def test_once_it_is_registered_the_command_line_knows_the_method_and_its_key(followed, monkeypatch, capsys):
    monkeypatch.setitem(METHODS, "G-BT", followed["GBT"])
    clnr = entry_point(monkeypatch, capsys)
    assert "weight of cross-correlations" in " ".join(clnr("recipe", "G-BT", "toy").out.split())
    assert "G-BT" in clnr("ls", "methods").out
    quick = ["run", "G-BT", "toy", "--device", "cpu", "--set", "epochs=1", "--set", "probe_steps=5"]
    made = json.loads(clnr(*quick, "--set", "redundancy=0.25", "--json").out)
    assert made["recipe"]["redundancy"] == 0.25
    wrong = clnr(*quick, "--set", "redundancy=lots")
    assert (wrong.code, wrong.err) == (2, "clnr: redundancy must be a number, not 'lots'\n")


def test_the_recipe_has_the_form_of_the_shipped_ones(followed):
    (block,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    row = tomllib.loads(block)["G-BT"]
    Published(**row.pop("published"))
    assert row.pop("source")
    assert set(row) <= set(recipe_keys(followed["GBT"]))
    Recipe.of(row, followed["GBT"])

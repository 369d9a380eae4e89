"""Hyper-parameters as options, and what is said of a misspelt one."""

from __future__ import annotations

import inspect
import json

import pytest
from typer.main import get_command

from clnr.cli import app, cmd_embed
from clnr.cli.parallel import ray_workers
from clnr.cli.recipe_options import SHORT_FORMS
from clnr.methods.recipe import recipe_keys
from tests.command_line import assert_refused


def test_short_forms_are_keys_of_recipes_and_no_option_is_there_twice():
    assert set(SHORT_FORMS) <= set(recipe_keys())
    for command in get_command(app).commands.values():
        options = [option for each in command.params for option in (*each.opts, *each.secondary_opts)]
        assert len(options) == len(set(options))
        if "--set" in options:
            assert {f"--{key.replace('_', '-')}" for key in SHORT_FORMS} <= set(options)


def test_a_short_form_is_what_set_gives(clnr):
    words = ["run", "CLNR", "toy", "--device", "cpu", "--json", "--quiet", "--set", "hidden=16", "--set", "probe_steps=9"]
    short = json.loads(clnr(*words, "--epochs", "1", "--dimension=8", "--learning-rate", "0.01").out)
    long = json.loads(clnr(*words, "--set", "epochs=1", "--set", "dimension=8", "--set", "learning_rate=0.01").out)
    assert (short["recipe"]["epochs"], short["recipe"]["dimension"], short["recipe"]["learning_rate"]) == (1, 8, 0.01)
    assert short == long


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["embed", "--dimensoin", "3"], "clnr embed has no option --dimensoin; did you mean --dimension?"),
        (["embed", "--egdes=e.csv"], "clnr embed has no option --egdes; did you mean --edges?"),
        (["run", "--ppr-alpha", "0.1"], "clnr run has no option --ppr-alpha; did you mean --set ppr_alpha=VALUE?"),
        (["ls", "methods", "--epochs", "3"], "clnr ls has no option --epochs; see: clnr ls --help"),
        (["embed", "--workers", "0"], "see: clnr embed --help"),
        (["--versoin"], "clnr has no option --versoin; did you mean --version?"),
        (["embed", "--edges", "e.csv", "--delimiter", ";"], "no option --delimiter; delimiters are found by themselves"),
        (["ingest", "--sep=;"], "clnr ingest has no option --sep; delimiters are found by themselves: leave it out"),
        (["embd"], "unknown command 'embd'; did you mean 'embed'?"),
        (["run", "--epochs", "many"], "epochs must be a whole number, not 'many'"),
        (["run", "--epochs", "3", "--set", "epochs=4"], "epochs is set twice: by --epochs and by --set"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_misspelt_word_names_the_right_one(clnr, words, said):
    assert said in assert_refused(clnr(*words))


def test_ray_is_handed_what_the_command_takes(clnr, monkeypatch):
    handed = {}
    monkeypatch.setattr(ray_workers, "run_on_ray", lambda command, options: handed.update(options) or 0)
    assert clnr("embed", "--edges", "e.csv", "--out", "o", "--ray", "auto", "--workers", "2", "--epochs", "3").code == 0
    assert (handed["tables"]["edges"], handed["assign"]) == ("e.csv", ["epochs=3"])
    assert inspect.signature(inspect.unwrap(cmd_embed.embed)).parameters.keys() == handed.keys()

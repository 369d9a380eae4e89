"""Messages name options on the command line, and arguments in Python."""

import shlex

import pytest
from typer.main import get_command

from clnr.cli import app
from clnr.errors import command_line, option, option_name, options
from clnr.tables.table_arguments import TableArguments


@pytest.mark.parametrize(
    ("argument", "value", "python", "words"),
    [
        ("hold_out", None, "hold_out", "--set hold_out"),
        ("hold_out", 0, "hold_out=0", "--set hold_out=0"),
        ("purpose", "links", "purpose='links'", "--for links"),
        ("resume", True, "resume=True", "--resume"),
        ("header", False, "header=False", "--no-header"),
        ("ignore", ["a b"], "ignore=['a b']", "--ignore 'a b'"),
        ("types", {"it's": "number"}, "types={\"it's\": 'number'}", '--as "it\'s=number"'),
        ("edges", {("user", "bought", "item"): "f"}, "edges={('user', 'bought', 'item'): 'f'}", "--edges user,bought,item=f"),
        ("recipe", {"a": 1, "b": 2}, "recipe={'a': 1, 'b': 2}", "--set a=1 --set b=2"),
    ],
)
def test_an_argument_is_named_as_its_caller_writes_it(argument, value, python, words):
    assert option(argument, value) == python
    with command_line():
        assert option(argument, value) == words
        assert options(id="a", **{argument: value}) == f"--id a {words}"
    assert options(id="a", **{argument: value}) == f"id='a', {python}"


@pytest.mark.parametrize("value", ["it's", "$HOME's", "\" y's", "a`b", "x!", "\\'", ""])
def test_a_value_can_be_pasted_into_a_shell(value):
    with command_line():
        assert shlex.split(option("id", value)) == ["--id", value]


def test_each_argument_of_tables_is_an_option():
    for command, more in (("ingest", ()), ("embed", ("purpose", "recipe"))):
        written = {option for each in get_command(app).commands[command].params for option in each.opts}
        assert {option_name(name) for name in (*TableArguments.options(), *more)} <= written

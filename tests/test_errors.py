"""Messages name options on the command line, and arguments in Python."""

import inspect
from dataclasses import fields

import pytest

from clnr import NodeEmbedder
from clnr.errors import _FLAGS, ClnrError, command_line, in_python
from clnr.tables.table_arguments import TableArguments


@pytest.mark.parametrize(
    ("sentence", "python"),
    [
        ("--hold-out 0 holds out none", "hold_out=0 holds out none"),
        ("chosen (--for links), or not", "chosen (purpose='links'), or not"),
        ("name it with --label COLUMN, or not", "name it with label='COLUMN', or not"),
        ("--as 'a b=number' takes such", "types={'a b': 'number'} takes such"),
        ("add --set moments=sampled --set hidden=64", "add recipe={'moments': 'sampled', 'hidden': 64}"),
        ("say so: --source 'a b' --target c", "say so: source='a b', target='c'"),
        ("name them: --source, --target", "name them: source, target"),
        ("add --header or --no-header, or", "add header=True or header=False, or"),
        ("--threads must be 3, not 7; more wait", "threads must be 3, not 7; more wait"),
        ("by name: --edges NAME=FILE", "by name: edges={'NAME': 'FILE'}"),
        ("kinds: --edges user,bought,item=FILE, or not", "kinds: edges={('user', 'bought', 'item'): 'FILE'}, or not"),
        ("--resume continues", "resume=True continues"),
        ("exchange --edges and --nodes", "exchange edges and nodes"),
        # Commands, names of files and what is no option stay.
        ("clnr ingest --out x writes it, and clnr embed --graph reads it", None),
        ("a--b.csv: column '-x' is -- empty", None),
    ],
)
def test_options_are_arguments_in_python(sentence, python):
    assert in_python(sentence) == (python or sentence)
    assert in_python(in_python(sentence)) == (python or sentence)


def test_flags_are_arguments_that_are_true_or_false():
    known = {field.name for field in fields(TableArguments) if field.type in ("bool", "bool | None")}
    for method in (NodeEmbedder, NodeEmbedder.save, NodeEmbedder.similar):
        known |= {name for name, each in inspect.signature(method).parameters.items() if each.default is False}
    assert {name.replace("-", "_") for name in _FLAGS} <= known


def test_the_caller_decides():
    assert str(ClnrError("give --label COLUMN")) == "give label='COLUMN'"
    with command_line():
        error = ClnrError("give --label COLUMN")
    assert str(error) == "give --label COLUMN"

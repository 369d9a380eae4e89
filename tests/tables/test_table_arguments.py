"""The arguments of tables stand in one place; what repeats their names lists all of them."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

import pytest

from clnr import ingest, read_tables
from clnr.tables.table_arguments import TableArguments

NAMES = [field.name for field in fields(TableArguments)]


def test_read_tables_takes_and_describes_them_all():
    parameters = inspect.signature(read_tables).parameters
    assert list(parameters) == NAMES
    assert [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD] == ["edges", "nodes"]
    described = re.findall(r"^ {8}(\w+): ", inspect.getdoc(read_tables).replace("\n    ", "\n        "), re.MULTILINE)
    assert described == NAMES


@pytest.mark.parametrize("function", [read_tables, ingest])
def test_an_argument_that_there_is_not_is_named(function, tmp_path):
    more = {"out": tmp_path / "out"} if function is ingest else {}
    for name, said in (("sorce", r"did you mean 'source'\?"), ("magic", rf"see help\(clnr.{function.__name__}\)")):
        with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got an unexpected keyword argument '{name}'; {said}$"):
            function("edges.csv", **{name: "a"}, **more)

"""Errors of NodeEmbedder name arguments of Python; the same errors of the command line name options."""

import inspect
import re
from dataclasses import fields

import pyarrow as pa
import pytest

from clnr import NodeEmbedder
from clnr.embedding.embedder_parameters import _FLAGS, in_python
from clnr.errors import ClnrError
from clnr.tables.table_arguments import TableArguments
from tests.conftest import tiny


@pytest.mark.parametrize(
    ("sentence", "python"),
    [
        ("--hold-out 0 holds out none", "hold_out=0 holds out none"),
        ("chosen (--for links), or not", "chosen (purpose='links'), or not"),
        ("name it with --label COLUMN, or not", "name it with label='COLUMN', or not"),
        ("or: --drop-empty (drop_empty=True) leaves rows out", "or: drop_empty=True leaves rows out"),
        ("--as 'a b=number' takes such", "types={'a b': 'number'} takes such"),
        ("--method CLNR with its defaults works", "method='CLNR' with its defaults works"),
        ("add --set moments=sampled --set hidden=64", "add recipe={'moments': 'sampled', 'hidden': 64}"),
        ("--workers 1, or --set hidden=64", "workers=1, or recipe={'hidden': 64}"),
        ("to use that: --id 'rival' (id=)", "to use that: id='rival'"),
        ("say so: --source 'a b' --target c", "say so: source='a b', target='c'"),
        ("name them: --source, --target", "name them: source, target"),
        ("add --no-edges-header (edges_header=False)", "add edges_header=False"),
        ("threads must be 3, not 7 (--threads); more wait", "threads must be 3, not 7; more wait"),
        ("tables by name (--edges NAME=FILE)", "tables by name"),
        ("start anew without --resume", "start anew without resume=True"),
        ("--resume continues", "resume=True continues"),
        ("exchange --edges and --nodes", "exchange edges and nodes"),
        # Commands, names of files and what is no option stay.
        ("clnr ingest --out x writes it, and clnr embed --graph reads it", None),
        ("run: clnr report FOLDER --name COLUMN, or else", None),
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
    assert {name.replace("-", "_") for name in _FLAGS} <= known | {"allow_disjoint", "allow_missing_columns"}


@pytest.fixture
def written(tmp_path):
    rows = "".join(f"{i},{i * 7 % 40}\n" for i in range(40))
    (tmp_path / "e.csv").write_text("source,target\n" + rows)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"purpose": "links", "hold_out": 0}, ["--for", "links", "--hold-out", "0"]),
        ({"purpose": "labels"}, ["--for", "labels"]),
        ({"hold_out": 2}, ["--hold-out", "2"]),
        ({"method": "GCN"}, ["--method", "GCN"]),
        ({"threads": 10**6}, ["--threads", "1000000"]),
        ({"tune": -1}, ["--tune", "-1"]),
    ],
    ids=str,
)
def test_errors_name_what_was_written(arguments, options, written, clnr):
    """No argument of Python has a dash, and the command line says the same in options."""
    with pytest.raises(ClnrError) as raised:
        NodeEmbedder(**arguments).fit(str(written / "e.csv"))
    told = str(raised.value)
    assert not re.search(r"(?<!\w)--[a-z]", told), told
    ended = clnr("embed", "--edges", written / "e.csv", *options, "--out", written / "out")
    assert ended.code == 2
    assert told in in_python(" ".join(ended.err.split()))


def test_each_method_of_it_speaks_python(tmp_path):
    made = NodeEmbedder("CLNR", epochs=1, device="cpu").fit(tiny())
    with pytest.raises(ClnrError, match=r"leave out kind$"):
        made.similar(0, kind="item")
    made.save(tmp_path / "mine")
    with pytest.raises(ClnrError, match=r"overwrite it with force=True$"):
        made.save(tmp_path / "mine")
    with pytest.raises(TypeError, match=r"load has no argument 'modul'"):
        NodeEmbedder.load(tmp_path / "mine", modul=None)


def test_warnings_speak_python_too(written):
    ages = ["unknown", *map(str, range(20, 59))]
    nodes = pa.table({"id": [str(i) for i in range(40)], "age": ages})
    made = NodeEmbedder("CLNR", epochs=1, device="cpu").fit((str(written / "e.csv"), nodes))
    assert any("types={'age': 'number'}" in each for each in made.warnings_)
    assert not any("--" in each for each in made.warnings_)

"""Messages name options on the command line, and arguments in Python."""

import inspect
import re
import warnings
from dataclasses import fields

import pytest

from clnr import NodeEmbedder, read_tables
from clnr.errors import _FLAGS, ClnrError, DataError, command_line, in_python
from clnr.tables import ingest, load_graph_folder
from clnr.tables.table_arguments import TableArguments


@pytest.mark.parametrize(
    ("sentence", "python"),
    [
        ("--hold-out 0 holds out none", "hold_out=0 holds out none"),
        ("chosen (--for links), or not", "chosen (purpose='links'), or not"),
        ("name it with --label COLUMN, or not", "name it with label='COLUMN', or not"),
        ("--as 'a b=number' takes such", "types={'a b': 'number'} takes such"),
        ("--method CLNR with its defaults works", "method='CLNR' with its defaults works"),
        ("add --set moments=sampled --set hidden=64", "add recipe={'moments': 'sampled', 'hidden': 64}"),
        ("--seed 1, or --set hidden=64", "seed=1, or recipe={'hidden': 64}"),
        ("to use that: --id 'rival'", "to use that: id='rival'"),
        ("say so: --source 'a b' --target c", "say so: source='a b', target='c'"),
        ("name them: --source, --target", "name them: source, target"),
        ("add --header or --no-header, or", "add header=True or header=False, or"),
        ("--threads must be 3, not 7; more wait", "threads must be 3, not 7; more wait"),
        ("by name: --edges NAME=FILE", "by name: edges={'NAME': 'FILE'}"),
        ("kinds: --edges user,bought,item=FILE, or not", "kinds: edges={('user', 'bought', 'item'): 'FILE'}, or not"),
        ("this: --nodes \"SELECT * FROM 'n.csv'\"; or", "this: nodes=\"SELECT * FROM 'n.csv'\"; or"),
        ("this: --nodes 'SELECT \"a $\" FROM '\"'\"'n'\"'\"", "this: nodes='SELECT \"a $\" FROM \\'n\\''"),
        ("start again without --resume", "start again without resume=True"),
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
    assert {name.replace("-", "_") for name in _FLAGS} <= known


def test_the_caller_decides():
    assert str(ClnrError("give --label COLUMN")) == "give label='COLUMN'"
    with command_line(["embed"]):
        error = ClnrError("give --label COLUMN")
    assert str(error) == "give --label COLUMN"


EDGES = "source,target\n" + "".join(f"n{i},n{(i + 1) % 40}\n" for i in range(40))


@pytest.fixture
def saved(tmp_path):
    def save(name, text, encoding="utf-8"):
        (tmp_path / name).write_text(text, encoding=encoding)
        return str(tmp_path / name)

    return save


def arguments_in(text, *names):
    """The arguments that a message names with a value, as Python reads them."""
    found = re.search(
        rf"({'|'.join(names)})=(True|False|\d[\d.]*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[{{][^\]}}]*[\]}}])", text
    )
    assert found, text
    return eval(f"dict({found[0]})")


@pytest.mark.parametrize(
    ("edges", "nodes", "given", "name"),
    [
        ("buyer,seller\nann,bob\nbob,cy\n", None, {}, "header"),
        ("source;target\nŁódź;Złotów\nZłotów;Wąsosz\nBiałystok;Łódź\n", None, {}, "encoding"),
        ("source,target,weight\nn1,n2,0\nn2,n3,0\n", None, {}, "ignore"),
        ("source,target,weight\nn1,n2,3 kg\nn2,n3,40 g\n", None, {"weight": "weight"}, "edges"),
        (EDGES, "id,x\nn1,1\nn2,2\nn3,3\nn4,soon\n", {"types": {"x": "date"}}, None),
    ],
    ids=lambda each: each if isinstance(each, str) and each.isidentifier() else "",
)
def test_errors_of_read_tables_name_arguments_that_work(saved, edges, nodes, given, name):
    encoding = "cp1250" if name == "encoding" else "utf-8"
    tables = [saved("e.csv", edges, encoding), *([] if nodes is None else [saved("n.csv", nodes)])]
    with pytest.raises(DataError) as caught:
        read_tables(*tables, **given)
    assert not re.search(r"(?<!\w)--[a-z]", str(caught.value)), caught.value
    if name is not None:
        cure = arguments_in(str(caught.value), name)
        if "edges" in cure:
            tables = []
        assert read_tables(*tables, **given | cure).graph.num_edges > 0


def test_notes_name_arguments_and_folders_keep_options(saved, tmp_path, clnr):
    edges = saved("e.csv", EDGES)
    nodes = saved("n.csv", "id,age\n" + "".join(f"n{i},{i + 20}\n" for i in range(39)) + "n39,lots\n")
    (note,) = read_tables(edges, nodes).ingest_report.remarks
    cure = arguments_in(note, "types")
    assert cure == {"types": {"age": "number"}}
    assert read_tables(edges, nodes, **cure).ingest_report.columns[-1].kind == "number"
    ingest(edges, nodes, out=tmp_path / "graph")
    assert load_graph_folder(tmp_path / "graph").ingest_report.remarks == (note,)
    ended = clnr("embed", "--graph", tmp_path / "graph", "--dry-run")
    assert "--as age=number" in ended.out
    assert "types=" not in ended.out


def test_warnings_of_python_name_arguments(saved):
    edges = saved("e.csv", "person,book\n" + "".join(f"p{i // 2},B{i % 7}\n" for i in range(30)))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        NodeEmbedder("CLNR", epochs=1, device="cpu").fit(read_tables(edges, header=True))
    (said,) = (str(each.message) for each in shown if "two kinds" in str(each.message))
    assert "add source='person', target='book'; if not, run: edges={('person', 'e', 'book'): " in said

"""Errors of NodeEmbedder name arguments of Python; the same errors of the command line name options."""

import re

import pytest

from clnr import NodeEmbedder
from clnr.errors import ClnrError, command_line
from tests.conftest import tiny


@pytest.fixture
def written(tmp_path):
    rows = "".join(f"{i},{i * 7 % 40}\n" for i in range(40))
    (tmp_path / "e.csv").write_text("source,target\n" + rows)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({"purpose": "links", "hold_out": 0}, ["--for", "links", "--set", "hold_out=0"]),
        ({"purpose": "labels"}, ["--for", "labels"]),
        ({"purpose": "profit"}, ["--for", "profit"]),
        ({"hold_out": 2}, ["--set", "hold_out=2"]),
        ({"method": "GCN"}, ["--set", "method=GCN"]),
        ({"threads": 10**6}, ["--set", "threads=1000000"]),
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
    with command_line(), pytest.raises(ClnrError) as raised:
        NodeEmbedder(**arguments).fit(str(written / "e.csv"))
    assert str(raised.value) in " ".join(ended.err.split())


def test_each_method_of_it_speaks_python(tmp_path):
    made = NodeEmbedder("CLNR", epochs=1, device="cpu").fit(tiny())
    with pytest.raises(ClnrError, match=r"leave out kind$"):
        made.similar(0, kind="item")
    made.save(tmp_path / "mine")
    with pytest.raises(ClnrError, match=r"overwrite it with force=True$"):
        made.save(tmp_path / "mine")

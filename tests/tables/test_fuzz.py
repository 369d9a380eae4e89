"""Any tables are a graph, the same in memory and in a folder, or are refused in one line that leaves nothing behind."""

from __future__ import annotations

import gzip
import json
import warnings

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.errors import ClnrError, DataError
from clnr.tables import ingest, read_tables
from tests.damage import damaged
from tests.fuzz import examples
from tests.tables.files import dense

pytestmark = pytest.mark.fuzz
WORDS = (
    *("a", "B", "b", "ü", "漢字", "😀", "it's", "x,y", "#no", "--", ";", "null", "None", "%s", "007", "1.0", "7a", "{}", "[]"),
    *("NA", "2020-13-45", "2020-01-31", 'q"q', "x\ny", "x\r\ny", "x\ty", "\x1b[31m", "'; DROP TABLE edges; --", "\u202eabc"),
    *("a" * 300, "\\n", "[1, 2]", "[1, null]", "a|b", "1.234,50", "$5", "yes", "No", "\0", "\ud7ff", " a ", "a b", "a b c"),
)
NUMBERS = ("0", "1", "-7", "42", "999999999999999999", "1e3", "1e30", "-1e308", "1e308", "5e-324", "nan", "inf", "1_0", "0x1")
NAMES = (
    *("source", "target", "id", "weight", "label", "name", "user", "userId", "from", "to", "node_kind", "original_id", "i"),
    *("rowid", "null", "filename", "columns", "c0", "k0_c1", "class", "ids", "edges", "node_rows", "*", "a.b", "?", "$1", ""),
    *(";", "1", "naïve", "漢字", "a,b", "#", "json", "struct", "'", '"', '"quoted"', "a\nb", "a\tb", "-- x", "/* x */"),
    *("x; DROP TABLE edges", "\u202eabc", " b ", "x" * 3000, "Source", "user.age", "nodes", "links"),
)
TYPED = {
    "wholes": st.integers(-(2**63), 2**63 - 1),
    "unsigned": st.integers(2**63, 2**64 - 1),
    "floats": st.floats(),
    "flags": st.booleans(),
    "moments": st.datetimes(),
    "days": st.dates(),
    "times": st.times(),
    "bytes": st.binary(max_size=4),
    "lists": st.lists(st.one_of(st.none(), st.floats()), min_size=2, max_size=2),
    "words": st.lists(st.sampled_from(WORDS), max_size=2),
    "objects": st.fixed_dictionaries({"a": st.integers(0, 3)}),
    "spans": st.timedeltas(),
    "decimals": st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9),
}
FORMS = ("csv", "csv", "json", "jsonl", "parquet", "frame")
KINDS = ("user", "it's", 'a"b', "x;y", "item")


@st.composite
def column(draw, rows, typed):
    """Values of one column: of a few, of many sorts, or none."""
    few = draw(st.lists(st.sampled_from((*WORDS, *NUMBERS)), min_size=1, max_size=4))
    kinds = [st.sampled_from(few), st.sampled_from(NUMBERS), st.integers(0, 4).map(str), st.sampled_from(WORDS)]
    cells = draw(st.sampled_from([*kinds, *kinds, *TYPED.values()] if typed else kinds))
    gaps = draw(st.integers(0, 2)) == 0
    return draw(st.lists(st.one_of(st.none(), cells) if gaps else cells, min_size=rows, max_size=rows))


@st.composite
def table(draw, role, ids):
    """Columns by name, and the form of the file that has them."""
    form = draw(st.sampled_from(FORMS))
    is_odd = draw(st.integers(0, 5)) == 0
    rows = draw(st.integers(0 if is_odd else 2, 12)) if role == "edges" or is_odd else len(ids)
    ends = st.lists(st.sampled_from(ids), min_size=rows, max_size=rows)
    keys = dict.fromkeys(("source", "target"), ends) if role == "edges" else {"id": ends if is_odd else st.just(ids)}
    columns = {name: draw(values) for name, values in keys.items()}
    more = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    return form, columns | {name: draw(column(rows, form in ("parquet", "frame"))) for name in more if name not in keys}


@st.composite
def file(draw, folder, role, ids):
    """A table as a file of the folder, perhaps with damage, or as a frame; and the names of its columns."""
    form, columns = draw(table(role, ids))
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if form in ("parquet", "frame"):
        try:
            made = pa.table(columns)
            if form == "frame":
                return made, [*columns]
            pq.write_table(made, folder / f"{role}.parquet")
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            hypothesis.reject()
        return folder / f"{role}.parquet", [*columns]
    if form == "csv":
        delimiter, end = draw(st.sampled_from(",;\t| ")), draw(st.sampled_from(("\n", "\n", "\r\n", "\r", "\r\r\n")))
        quote = draw(st.sampled_from(("always", "needed", "never")))

        def cell(value):
            text = "" if value is None else str(value)
            needs = quote == "always" or (quote == "needed" and any(sign in text for sign in (delimiter, '"', "\n", "\r")))
            return '"' + text.replace('"', '""') + '"' if needs else text

        header = [columns] if draw(st.integers(0, 4)) else []
        text = end.join(delimiter.join(map(cell, row)) for row in [*header, *zip(*columns.values(), strict=True)]) + end
        text = draw(st.sampled_from(("", "", "\ufeff", "# a comment\n", "\n\n"))) + text
    else:
        text = json.dumps(rows) if form == "json" else "".join(json.dumps(row) + "\n" for row in rows)
        if form == "json" and draw(st.integers(0, 3)) == 0:
            text = json.dumps({"nodes": rows, "links": rows})
    content = text.encode(draw(st.sampled_from((*["utf-8"] * 6, "utf-16", "latin-1"))), "replace")
    content = draw(damaged(content)) if draw(st.integers(0, 9)) == 0 else content
    packed = draw(st.integers(0, 6)) == 0
    path = folder / f"{role}.{draw(st.sampled_from(('csv', 'tsv', 'txt'))) if form == 'csv' else form}{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return path, [*columns]


@st.composite
def asked(draw, edges, nodes):
    """Some of the other arguments, for columns of these names."""
    name, end = st.sampled_from(nodes or NAMES), st.sampled_from(edges)
    ways = {
        **dict.fromkeys(("source", "target", "weight", "edge_type"), end),
        **dict.fromkeys(("id", "label", "label", "names"), name),
        **dict.fromkeys(("features", "ignore"), st.lists(name, max_size=2)),
        "types": st.dictionaries(name, st.sampled_from(("number", "category", "text", "time", "list", "boolean")), max_size=2),
        "until": st.tuples(end, st.sampled_from(("2020", "2020-02-30", "1", "nan", "x"))).map("=".join),
        "unknown_ends": st.sampled_from(("keep", "drop")),
        "encoding": st.sampled_from(("cp1252", "utf-16", "utf-7", "punycode")),
        **dict.fromkeys(("header", "directed"), st.booleans()),
    }
    chosen = draw(st.lists(st.sampled_from(tuple(ways)), max_size=3, unique=True)) if draw(st.booleans()) else []
    return {each: draw(ways[each]) for each in chosen}


def outcome(call):
    """What is read, or the one line that it is refused with."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return call()
        except ClnrError as error:
            said = str(error)
    assert "\n" not in said
    assert 0 < len(said) <= 1000
    return said


@pytest.fixture
def check(tmp_path_factory, monkeypatch):
    def read_both(data):
        folder, temporary = tmp_path_factory.mktemp("any"), tmp_path_factory.mktemp("temporary")
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        pool = st.sampled_from((*WORDS, *NUMBERS)) if data.draw(st.booleans()) else st.integers(0, 99).map(str)
        ids = data.draw(st.lists(pool, min_size=2, max_size=12, unique=True))
        edges, ends = data.draw(file(folder, "edges", ids))
        nodes, names = data.draw(file(folder, "nodes", ids)) if data.draw(st.integers(0, 2)) else (None, [])
        more, kinds = data.draw(asked(ends, names)), data.draw(st.sampled_from((None, None, None, "edges", "nodes")))
        if kinds == "edges":
            edges = {data.draw(st.sampled_from(KINDS)): edges}
        elif kinds == "nodes":
            one, other = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(KINDS))
            edges, nodes = {(one, "has", other): edges}, None if nodes is None else {one: nodes}
        given = {path.name for path in folder.iterdir()}
        read = outcome(lambda: read_tables(edges, nodes, **more))
        assert list(temporary.iterdir()) == []
        stored = outcome(lambda: ingest(edges, nodes, out=folder / "out", **more))
        assert list(temporary.iterdir()) == []
        refused = isinstance(read, str)
        hypothesis.event("refused" if refused else "read")
        assert {path.name for path in folder.iterdir()} == given | (set() if refused else {"out"})
        if refused:
            assert stored == read
            return
        assert stored.digest == read.digest
        assert np.isfinite(dense(read)).all()
        extended = outcome(lambda: read_tables(edges, nodes, base=read, **{k: v for k, v in more.items() if k in SAME}))
        assert isinstance(extended, str) or (extended.num_nodes >= read.num_nodes and np.isfinite(dense(extended)).all())

    return read_both


SAME = ("source", "target", "weight", "id", "label", "edge_type", "header", "directed", "encoding", "unknown_ends")
SETTINGS = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck)}


@hypothesis.settings(max_examples=examples(60), derandomize=True, **SETTINGS)
@hypothesis.given(st.data())
def test_any_tables_are_a_graph_or_refused_in_one_line(check, data):
    check(data)


@pytest.mark.full
@hypothesis.settings(max_examples=examples(2000), derandomize=True, **SETTINGS)
@hypothesis.given(st.data())
def test_so_are_many_more(check, data):
    check(data)

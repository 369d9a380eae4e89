"""Any table is a graph or an error of one line, the same in memory and as a folder, and nothing is left of what failed."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest

from clnr.errors import ClnrError
from clnr.tables import ingest, read_tables
from tests.fuzz import examples
from tests.tables.files import written

pytestmark = pytest.mark.fuzz
WORDS = (
    *("a", "B", "ü", "漢字", "😀", "it's", "x,y", "#no", "--", ";", "%s", "007", "7", "7.0", "1e3", "{}", "[]", "[1, 2]", "NA"),
    *("nan", "inf", "-inf", "2020-13-45", "2020-01-02", 'q"q', "x\ny", "x\r\ny", "x\ty", "\x1b[31m", "yes", "no", "$5", "1,5"),
    *("'; DROP TABLE node_rows; --", "\u202eabc", "a" * 300, "\\N", "", " ", "999999999999999999999", "1e308", "-0"),
)
NAMES = (
    "source",
    "target",
    "weight",
    "id",
    "name",
    "label",
    "x",
    "Y z",
    "user_id",
    "a'b",
    'c"d',
    "i",
    "s",
    "w",
    "ü",
    "c0",
    "day",
)
FORMS = ("csv", "parquet", "jsonl", "json", "pandas")


@st.composite
def tables(draw, least):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=least, max_size=5, unique=True))
    rows = draw(st.integers(0, 8))
    few = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
    return {name: draw(st.lists(st.sampled_from(few), min_size=rows, max_size=rows)) for name in names}


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(NAMES),
        "target": st.sampled_from(NAMES),
        "label": st.sampled_from(NAMES),
        "directed": st.booleans(),
        "unknown_ends": st.sampled_from(("keep", "drop")),
        "header": st.booleans(),
        "ignore": st.lists(st.sampled_from(NAMES), max_size=2),
        "types": st.dictionaries(
            st.sampled_from(NAMES), st.sampled_from(("number", "text", "time", "list", "category")), max_size=1
        ),
    },
)


@hypothesis.settings(max_examples=examples(60), deadline=None)
@hypothesis.given(tables(2), st.none() | tables(1), st.sampled_from(FORMS), OPTIONS)
def test_any_table_is_a_graph_or_one_line(tmp_path_factory, edges, nodes, form, options):
    folder = tmp_path_factory.mktemp("fuzz")
    given = [written(folder, form, edges, "e"), None if nodes is None else written(folder, form, nodes, "n")]
    before = {each.name for each in folder.iterdir()}
    digests = []
    for read in (lambda: read_tables(*given, **options), lambda: ingest(*given, **options, out=folder / "g", memory="1 GB")):
        try:
            digests.append(read().digest)
        except ClnrError:
            digests.append(None)
            assert {each.name for each in folder.iterdir()} == before
    assert digests[0] == digests[1]

"""Any table is the graph that a slow reading of the rules gives, or refused in one line; any bytes are a graph or one line."""

from __future__ import annotations

import math
import re
import warnings

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.errors import ClnrError
from clnr.tables import read_tables
from tests.fuzz import examples
from tests.tables.files import dense, edge_weights, written
from tests.tables.roles.test_column_names import HOSTILE

pytestmark = pytest.mark.fuzz
FORMS = ("csv", "parquet", "jsonl", "json")
LARGEST = float(np.finfo(np.float32).max)

# -- what is in a table -----------------------------------------------------------------------------------------------------

WORDS = (
    *("a", "B", "b", "ü", "漢字", "😀", "it's", "x,y", "#no", "--", ";", "null", "None", "%s", "007", "1.0.0", "7a", "{}"),
    *("[]", "NA", "2020-13-45", 'q"q', "x\ny", "x\r\ny", "x\ty", "\x1b[31m", "'; DROP TABLE people; --", "\u202eabc"),
    *("a" * 300, "\\n"),
)
WHOLE = ("0", "1", "-7", "42", "999999999999999999")
NUMBERS = {"0": 0.0, "1": 1.0, "-2.5": -2.5, "1e3": 1000.0, "1e30": 1e30, "-1e300": -1e300, "1e-300": 1e-300, " 3 ": 3.0}
UNTOLD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
FLAGS = {"yes": 1.0, "No": 0.0, "T": 1.0, "false": 0.0}
ENDS = ("source", "target", "weight")
IDS = {"text": (*WORDS, *WHOLE[:3]), "whole": WHOLE}
# Without those by which a label or a weight is found that nobody asked for.
NAMES = tuple({name.strip().casefold(): name for name in HOSTILE if name not in ("class", "w")}.values())


def cells(kind):
    """Values of a column of some kind, as they are written; None where there is none."""
    values = {"number": (*NUMBERS, *UNTOLD), "flag": tuple(FLAGS), "word": WORDS, "nothing": ()}[kind]
    return st.sampled_from((*values, None))


@st.composite
def tables(draw):
    """Edges, and perhaps nodes, each by columns of texts, and the names of those that matter."""
    pool = IDS[draw(st.sampled_from(tuple(IDS)))]
    ids = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=8, unique=draw(st.booleans())))
    ends = st.sampled_from(ids if draw(st.booleans()) else pool)
    rows = draw(st.integers(1, 8))
    names = iter(draw(st.permutations(NAMES)))
    asked = {key: next(names) for key in ("source", "target", "weight", "id", "label")}
    edges = {asked["source"]: draw(st.lists(ends, min_size=rows, max_size=rows))}
    edges[asked["target"]] = draw(st.lists(ends, min_size=rows, max_size=rows))
    if draw(st.booleans()):
        weights = st.sampled_from(
            ("1", "0.5", "3e38", "0", *(("-1", "nan", "heavy", None) if draw(st.integers(0, 9)) == 0 else ()))
        )
        edges[asked["weight"]] = draw(st.lists(weights, min_size=rows, max_size=rows))
    nodes = None
    if draw(st.booleans()):
        nodes = {asked["id"]: list(ids)}
        if draw(st.booleans()):
            nodes[asked["label"]] = draw(
                st.lists(st.sampled_from((*WORDS[:5], "10", "9", None)), min_size=len(ids), max_size=len(ids))
            )
        for kind in draw(st.lists(st.sampled_from(("number", "flag", "word", "nothing")), max_size=3)):
            nodes[next(names)] = draw(st.lists(cells(kind), min_size=len(ids), max_size=len(ids)))
    return edges, nodes, asked, draw(st.booleans())


# -- the slow reading -------------------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


def shown(value):
    """A text without what is around it; None where nothing is left."""
    return None if value is None else value.strip(" ") or None


def slow_ids(columns, form):
    """Ids of several columns: whole numbers where all are written so in a text file, else texts."""
    texts = [[shown(each) if form == "csv" else each or None for each in column] for column in columns]
    if any(each is None for column in texts for each in column):
        raise Refused("an id is empty")
    whole = form == "csv" and all(re.fullmatch("0|-?[1-9][0-9]{0,17}", each) for column in texts for each in column)
    return [[int(each) if whole else each for each in column] for column in texts]


def slow_edges(source, target, weight, known, directed):
    """Each edge with its weight: rows of one direction add up, of two directions the larger counts."""
    sums = {}
    for a, b, w in zip(source, target, weight, strict=True):
        if a != b and a in known and b in known:
            sums[a, b] = sums.get((a, b), 0.0) + w
    found = {}
    for (a, b), w in sums.items():
        total = w if directed else max(w, sums.get((b, a), 0.0))
        if total > LARGEST:
            raise Refused("a weight is too large")
        if total > 0:
            found[a, b] = total
            if not directed:
                found[b, a] = total
    return found


def slow_column(values):
    """The features of one column, a row of them for each node; none where it is no feature."""
    values = [shown(value) for value in values]
    there = [value for value in values if value is not None]
    kinds = NUMBERS | UNTOLD
    if not there or (len(set(there)) == 1 and len(there) == len(values)):
        return None
    if all(value in {each.strip() for each in kinds} for value in there):
        plain = {each.strip(): number for each, number in kinds.items()}
        numbers = [math.nan if value is None else plain[value] for value in values]
        finite = [number for number in numbers if math.isfinite(number)]
        if not finite:
            return None
        unit = max(abs(number) for number in finite) or 1.0
        mean = math.fsum(number / unit for number in finite) / len(finite)
        spread = math.sqrt(math.fsum((number / unit - mean) ** 2 for number in finite) / len(finite))
        missing = len(finite) < len(numbers)
        if not missing and len(set(finite)) == 1:
            return None
        scale = spread if len(set(finite)) > 1 else 1.0
        rows = [[(x / unit - mean) / scale if math.isfinite(x) else 0.0] for x in numbers]
        return [row + [float(not math.isfinite(x))] * missing for row, x in zip(rows, numbers, strict=True)]
    missing = len(there) < len(values)
    if all(value in FLAGS for value in there):
        if len({value.lower() for value in there}) == 1 and not missing:
            return None
        return [[FLAGS.get(value, 0.0)] + [float(value is None)] * missing for value in values]
    names = sorted(set(there))
    return [[float(value == name) for name in names] + [float(value is None)] * missing for value in values]


def slow(*given):
    """Ids, edges, features and labels, from the rules alone; or why there are none."""
    try:
        return slow_graph(*given)
    except Refused as why:
        return str(why)


def slow_graph(edges, nodes, asked, directed, forms):
    if any(each is None or shown(each) is None for key in ("source", "target") for each in edges[asked[key]]):
        raise Refused("an end is empty")
    columns = [edges[asked["source"]], edges[asked["target"]]]
    by_edges = [slow_ids([column], forms[0])[0] for column in columns]
    own = None if nodes is None else slow_ids([nodes[asked["id"]]], forms[1])[0]
    every = [*by_edges, *([own] if own is not None else [])]
    if not all(isinstance(each, int) for column in every for each in column):
        every = [[str(each) for each in column] for column in every]
    source, target = every[:2]
    ids = every[2] if nodes is not None else sorted({*source, *target})
    if len(set(ids)) < len(ids):
        raise Refused("a node is there twice")
    weight = [1.0] * len(source)
    if asked["weight"] in edges:
        given = edges[asked["weight"]]
        if any(each in ("-1", "nan", "heavy", None) for each in given):
            raise Refused("no weight")
        weight = [float(each) for each in given]
        if not any(weight):
            raise Refused("all weights are 0")
    known = set(ids)
    if not any(a in known and b in known for a, b in zip(source, target, strict=True)):
        raise Refused("no edge has both ends among the nodes")
    found = slow_edges(source, target, weight, known, directed)
    if asked["weight"] not in edges:
        found = dict.fromkeys(found, 1.0)
    labels, blocks = None, []
    for name, values in ({} if nodes is None else nodes).items():
        if name == asked["label"]:
            labels = [shown(value) for value in values]
        elif name != asked["id"] and (block := slow_column(values)) is not None:
            blocks.append(block)
    x = np.concatenate([np.array(block) for block in blocks], axis=1) if blocks else None
    return ids, found, x, labels


# -- the two compared -------------------------------------------------------------------------------------------------------

SETTINGS = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(hypothesis.HealthCheck),
}


def read(*given, **asked):
    """What is read, or the one line that it is refused with."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return read_tables(*given, **asked)
        except ClnrError as error:
            said = str(error)
    assert "\n" not in said
    assert 0 < len(said) <= 1000
    return said


@hypothesis.settings(max_examples=examples(30), **SETTINGS)
@hypothesis.given(tables(), st.sampled_from(FORMS), st.sampled_from(FORMS))
def test_any_table_is_the_graph_that_the_rules_give_or_refused(tmp_path_factory, drawn, form, other):
    edges, nodes, asked, directed = drawn
    folder = tmp_path_factory.mktemp("any")
    given = [written(folder, form, edges, "e")]
    if nodes is not None:
        given.append(written(folder, other, nodes))
    there = {key: name for key, name in asked.items() if name in (edges if key in ENDS else nodes or {})}
    found = read(*given, directed=directed, **there)
    expected = slow(edges, nodes, asked, directed, (form, other))
    if isinstance(expected, str):
        assert isinstance(found, str), expected
        return
    assert not isinstance(found, str), found
    (ids, ends, x, labels), graph = expected, found.graph
    assert graph.ids.tolist() == ids
    assert edge_weights(graph).keys() == ends.keys()
    assert edge_weights(graph) == pytest.approx(ends, rel=1e-6)
    features = dense(graph.features)
    assert np.isfinite(features).all()
    if x is None:
        assert features.shape == (len(ids), 4)
    else:
        assert features.shape == x.shape
        assert np.allclose(features, x, atol=1e-5)
    if labels is not None:
        assert [found.classes[each] if each >= 0 else None for each in graph.labels.tolist()] == labels


def spoilt(data, content):
    """Some bytes of a file changed, cut out or put in."""
    content = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        if data.draw(st.booleans()):
            content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        elif place < len(content):
            content[place] ^= 1 << data.draw(st.integers(0, 7))
    return bytes(content)


@hypothesis.settings(max_examples=examples(25), **SETTINGS)
@hypothesis.given(tables(), st.sampled_from(FORMS), st.data())
def test_a_file_with_spoilt_bytes_is_a_graph_or_one_line(tmp_path_factory, drawn, form, data):
    edges, nodes, _, directed = drawn
    folder = tmp_path_factory.mktemp("spoilt")
    given = [written(folder, form, edges, "e")] + ([] if nodes is None else [written(folder, form, nodes)])
    path = data.draw(st.sampled_from(given))
    path.write_bytes(spoilt(data, path.read_bytes()))
    found = read(*given, directed=directed)
    if not isinstance(found, str):
        assert np.isfinite(dense(found.graph.features)).all()
        assert found.graph.num_nodes >= 1


TYPES = {
    "integers": st.integers(-(2**63), 2**63 - 1),
    "floats": st.floats(),
    "texts": st.text(st.characters(blacklist_categories=("Cs",)), max_size=6),
    "flags": st.booleans(),
    "moments": st.datetimes(),
    "days": st.dates(),
    "times": st.times(),
    "bytes": st.binary(max_size=4),
    "lists": st.lists(st.one_of(st.none(), st.floats()), min_size=2, max_size=2),
    "objects": st.fixed_dictionaries({"a": st.integers(0, 3)}),
    "spans": st.timedeltas(),
    "decimals": st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9),
}


@hypothesis.settings(max_examples=examples(25), **SETTINGS)
@hypothesis.given(st.data(), st.booleans())
def test_columns_of_any_types_are_a_graph_or_one_line(tmp_path_factory, data, frame):
    def drawn(rows, width):
        names = data.draw(st.permutations(NAMES))
        kinds = data.draw(st.lists(st.sampled_from(tuple(TYPES)), min_size=width, max_size=width + 2))
        columns = {
            name: data.draw(st.lists(st.one_of(st.none(), TYPES[kind]), min_size=rows, max_size=rows))
            for name, kind in zip(names, kinds, strict=False)
        }
        try:
            made = pa.table(columns)
        except (pa.ArrowException, OverflowError, ValueError):
            hypothesis.assume(False)
        if frame:
            return made
        path = tmp_path_factory.mktemp("types") / "t.parquet"
        try:
            pq.write_table(made, path)
        except (pa.ArrowException, OverflowError):
            hypothesis.assume(False)
        return path

    edges = drawn(data.draw(st.integers(0, 5)), 2)
    nodes = drawn(data.draw(st.integers(0, 5)), 1) if data.draw(st.booleans()) else None
    found = read(edges, nodes)
    if not isinstance(found, str):
        assert np.isfinite(dense(found.graph.features)).all()

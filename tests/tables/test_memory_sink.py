"""Tables onto an earlier graph: as if all had been read at once, and by the rules where they say otherwise."""

from __future__ import annotations

import re

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import DataError
from clnr.support.humanize import parse_bytes
from clnr.tables import FeatureEncoder, folder_ingest, ingest, read, read_tables
from clnr.tables.columns.column_encoders import ColumnEncoder
from tests.fuzz import examples
from tests.tables.files import dense, edge_weights


def edges(*rows):
    ends = list(zip(*rows, strict=True)) or [[], []]
    return pa.table({"source": ends[0], "target": ends[1]} | ({"weight": ends[2]} if len(ends) > 2 else {}))


def nodes(ids, **columns):
    return pa.table({"id": ids} | columns)


FIRST = nodes(["a", "b", "c"], x=[1.0, 2.0, 6.0], kind=["u", "v", "u"], label=["no", "yes", None])


@pytest.fixture
def earlier():
    return read_tables(edges(("a", "b"), ("b", "c")), FIRST)


def test_nodes_keep_their_order_and_new_ones_follow(earlier):
    more = nodes(["z", "b", "d"], x=[3.0, 5.0, 3.0], kind=["v", "w", "u"], label=["maybe", None, "yes"])
    found = read_tables(edges(("z", "a"), ("d", "z"), ("a", "nobody")), more, base=earlier)
    assert found.graph.ids.tolist() == ["a", "b", "c", "z", "d"]
    assert (found.ingest_report.rows, found.ingest_report.dangling, found.ingest_report.first_dangling) == (3, 1, "nobody")
    assert found.feature_encoder == earlier.feature_encoder
    x, before = dense(found.graph.features), dense(earlier.graph.features)
    assert np.array_equal(x[[0, 2]], before[[0, 2]])
    assert x[:, 1:].tolist() == [[1, 0], [0, 0], [1, 0], [0, 1], [1, 0]]
    assert found.classes == ("no", "yes", "maybe")
    assert found.columns["kind"].to_pylist() == ["u", "w", "u", "v", "u"]


def test_nodes_alone_and_edges_alone(earlier):
    only = read_tables(None, nodes(["d"], x=[3.0]), base=earlier)
    assert edge_weights(only.graph) == edge_weights(earlier.graph)
    assert (only.ingest_report.rows, only.ingest_report.isolated) == (0, 1)
    assert only.ingest_report.remarks[-1].endswith("it lacks 'kind'; all values are missing")
    assert only.graph.labels.tolist() == [0, 1, -1, -1]
    assert only.columns["kind"].to_pylist() == ["u", "v", "u", None]
    more = read_tables(edges(("c", "y"), ("k", "y"), ("a", "b")), base=earlier)
    assert "merged: 1 edge that the earlier graph has; each edge counts once" in more.ingest_report.remarks
    assert more.graph.ids.tolist() == ["a", "b", "c", "k", "y"]
    assert dense(more.graph.features)[3:].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert more.ingest_report.remarks[-1] == "without values: 2 new nodes; a node table (--nodes) would give them"
    assert more.columns["id"].to_pylist() == ["a", "b", "c", None, None]
    assert len(edge_weights(more.graph)) == 8


def test_values_that_are_missing_have_their_feature_in_nodes_of_edges_alone():
    first = read_tables(edges((1, 2)), nodes([1, 2, 3], x=[1.0, None, 3.0], day=["u", "v", None]))
    more = read_tables(edges((3, 9)), base=first)
    assert dense(more.graph.features)[3].tolist() == [0, 1, 0, 0, 1]


def test_a_weight_replaces_the_earlier_one_and_duplicates_add_up():
    first = read_tables(edges((1, 2, 5.0), (2, 3, 7.0)))
    found = read_tables(edges((2, 1, 1.0), (2, 1, 2.0), (3, 4, 4.0)), base=first)
    assert edge_weights(found.graph) == {(1, 2): 3, (2, 1): 3, (2, 3): 7, (3, 2): 7, (3, 4): 4, (4, 3): 4}
    assert found.graph.ids.dtype.kind == "i"
    gone = read_tables(edges((1, 2, 0.0)), base=first)
    assert edge_weights(gone.graph) == {(2, 3): 7, (3, 2): 7}
    assert gone.ingest_report.isolated == 1


@pytest.mark.parametrize("bare", ["new", "earlier"])
def test_edges_without_weights_weigh_one_and_leave_those_that_are_there(bare):
    tables = {"earlier": edges((1, 2, 5.0)), "new": edges((1, 2), (2, 3))}
    first, second = tables.values() if bare == "new" else reversed(tables.values())
    found = read_tables(second, base=read_tables(first))
    assert edge_weights(found.graph) == {(1, 2): 5, (2, 1): 5, (2, 3): 1, (3, 2): 1}
    other = {"new": "the earlier", "earlier": "the new"}[bare]
    assert found.ingest_report.remarks == (
        f"warning: the {bare} edges have no weights, unlike the others, and count as 1",
        f"merged: 1 edge that the earlier graph has; {other} weight counts",
    )


def test_directed_stays_so():
    # Both ways, so that the edges themselves do not tell.
    first = read_tables(edges((1, 2), (2, 1)), directed=True)
    found = read_tables(edges((2, 3)), base=first)
    assert edge_weights(found.graph).keys() == {(1, 2), (2, 1), (2, 3)}
    assert found.ingest_report.directed
    assert edge_weights(read_tables(edges((2, 3)), base=first, directed=True).graph) == edge_weights(found.graph)
    with pytest.raises(DataError, match="the earlier graph is directed"):
        read_tables(edges((2, 3)), base=first, directed=False)
    with pytest.raises(DataError, match="the earlier graph is undirected"):
        read_tables(edges((2, 3)), base=read_tables(edges((1, 2))), directed=True)


def test_ids_become_texts_once_some_are():
    first = read_tables(edges((1, 2)), nodes([2, 1], x=[1.0, 2.0]))
    found = read_tables(edges(("1", "007")), nodes(["007", "2"], x=[5.0, 6.0]), base=first)
    assert found.graph.ids.tolist() == ["2", "1", "007"]
    assert edge_weights(found.graph).keys() == {("1", "2"), ("2", "1"), ("1", "007"), ("007", "1")}
    assert found.columns["id"].to_pylist() == ["2", "1", "007"]
    later = read_tables(edges((1, 3)), nodes([3], x=[5.0]), base=found)
    assert later.graph.ids.tolist() == ["2", "1", "007", "3"]


def test_columns_of_two_types_become_texts():
    first = read_tables(edges((1, 2)), nodes([1, 2], x=[1, 2], y2=[0.5, 1.5], gone=[True, False]))
    found = read_tables(None, nodes([2, 3], x=["7", "8"], y2=[2.5, 3.5], new=["p", "q"]), base=first)
    assert found.columns.to_pydict() == {
        "id": [1, 2, 3],
        "x": ["1", "7", "8"],
        "y2": [0.5, 2.5, 3.5],
        "gone": [True, None, None],
        "new": [None, "p", "q"],
    }


def test_structure_is_computed_anew_with_the_earlier_scale():
    star = [("hub", f"leaf{i}") for i in range(5)]
    first = read_tables(edges(*star, ("x", "y")))
    found = read_tables(edges(("x", "hub"), ("new", "y")), base=first)
    assert found.feature_encoder == first.feature_encoder
    names = found.graph.ids.tolist()
    assert names[: first.graph.num_nodes] == first.graph.ids.tolist()
    whole = read_tables(edges(*star, ("x", "y"), ("x", "hub"), ("new", "y")), feature_encoder=first.feature_encoder)
    order = [whole.graph.ids.tolist().index(name) for name in names]
    assert np.allclose(whole.graph.features[order], found.graph.features)
    centre, scale = first.feature_encoder.structure.centre[0], first.feature_encoder.structure.scale[0]
    assert found.graph.features[names.index("hub"), 0] == pytest.approx((np.log1p(6) - centre) / scale, abs=1e-5)


def test_what_cannot_come_onto_an_earlier_graph_is_said(earlier):
    encoder = earlier.feature_encoder
    narrow = earlier._replace(feature_encoder=FeatureEncoder(encoder.column_encoders[:1]))
    for nodes_given, asked, said in (
        (None, {"base": earlier}, "there is nothing to read"),
        (FIRST, {}, "there is nothing to read"),
        (FIRST, {"base": earlier, "feature_encoder": encoder}, "leave out either feature_encoder or base"),
        (FIRST, {"base": narrow}, "has 3 features a node, but its feature encoder makes 1"),
        (FIRST, {"base": earlier._replace(columns=FIRST.slice(1))}, "has 3 nodes, but its table of columns 2 rows"),
    ):
        with pytest.raises(DataError, match=said):
            read_tables(None, nodes_given, **asked)
    with pytest.raises(DataError, match="needs the features of a node table"):
        read_tables(edges(("a", "b")), feature_encoder=encoder)


def test_edges_that_lead_to_no_earlier_node_are_warned_of(earlier):
    other, more = edges(("p", "q"), ("q", "r")), nodes(["p", "q", "r"], x=[1.0, 2.0, 3.0])
    # One edge is enough, one row of an earlier node, or a table of nodes alone.
    linked, known = edges(("p", "q"), ("q", "c")), nodes(["p", "q", "r", "a"], x=[1.0, 2.0, 3.0, 4.0])
    for tables, count, warned in (
        ((other,), 6, True),
        ((other, more), 6, True),
        ((linked,), 5, False),
        ((other, known), 6, False),
        ((None, more), 6, False),
    ):
        found = read_tables(*tables, base=earlier)
        assert found.graph.num_nodes == count
        warnings = [line for line in found.ingest_report.remarks if "none of its edges" in line]
        assert [line.startswith("warning: ") and "'a'" in line for line in warnings] == [True] * warned


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=15)
TABLE = st.dictionaries(st.integers(0, 9), st.tuples(st.integers(-3, 3), st.sampled_from([None, "u", "v", "w"])), min_size=1)


SCALED = FeatureEncoder((ColumnEncoder("x", "number", 1, centre=1.0, scale=2.0),))


@pytest.mark.fuzz
@hypothesis.settings(max_examples=examples(10), deadline=None)
@hypothesis.given(PAIRS, TABLE, PAIRS, TABLE, st.booleans())
def test_two_tables_after_each_other_are_as_both_at_once(first, known, second, new, directed):
    def table(rows):
        return nodes(
            pa.array(rows.keys(), pa.int64()),
            x=pa.array([x for x, _ in rows.values()], pa.float64()),
            label=pa.array([name for _, name in rows.values()], pa.string()),
        )

    hypothesis.assume(any({*pair} <= known.keys() for pair in first))
    hypothesis.assume(any({*pair} <= (known | new).keys() for pair in second))
    one = read_tables(edges(*first), table(known), directed=directed, feature_encoder=SCALED)
    two = read_tables(edges(*second), table(new), base=one)
    both = known | new
    names = [*known, *(each for each in new if each not in known)]
    assert two.graph.ids.tolist() == names
    assert dense(two.graph.features)[:, 0].tolist() == [(both[each][0] - 1) / 2 for each in names]
    assert [two.classes[label] if label >= 0 else None for label in two.graph.labels] == [both[each][1] for each in names]
    # What led nowhere at first stays left out, as its nodes came later.
    expected = {(a, b) for a, b in first if a in known and b in known} | {(a, b) for a, b in second if a in both and b in both}
    expected = {(a, b) for a, b in expected | (set() if directed else {(b, a) for a, b in expected}) if a != b}
    assert edge_weights(two.graph).keys() == expected
    assert two.columns["x"].to_pylist() == [both[each][0] for each in names]
    assert two.classes[: len(one.classes)] == one.classes


# -- memory: reading keeps within what is unused, or says how much it needs -----------------------------------------------

NODE_COUNT, EDGE_COUNT, COLUMN_COUNT = 2000, 20_000, 20


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, NODE_COUNT, (2, EDGE_COUNT))
    columns = {f"x{i}": rng.normal(size=NODE_COUNT) for i in range(COLUMN_COUNT)}
    return pa.table({"source": ends[0], "target": ends[1]}), pa.table({"id": np.arange(NODE_COUNT), **columns})


@pytest.fixture
def unused(monkeypatch):
    return lambda amount: monkeypatch.setattr(read, "unused_memory", lambda: amount)


def test_what_will_not_fit_is_refused_with_the_figure(tables, unused):
    unused(2_000_000)
    with pytest.raises(DataError, match="2 MB are free; clnr ingest writes them as a graph folder") as refused:
        read_tables(*tables)
    needed = parse_bytes(re.search(r"about (.*?) of memory", str(refused.value))[1])
    # At least the edges in two directions, and each number as it was given and as a feature.
    assert needed > EDGE_COUNT * 2 * 8 + NODE_COUNT * COLUMN_COUNT * (8 + 4)
    unused(2 * needed)
    read_tables(*tables)


def test_small_tables_are_read_in_little_memory(unused):
    unused(1_000_000)
    assert read_tables(edges(("a", "b"), ("b", "c")), FIRST, memory="4 GB").graph.num_nodes == 3


def test_a_graph_folder_is_written_in_what_is_unused(tables, monkeypatch, tmp_path):
    found, connect = [], folder_ingest.connect
    monkeypatch.setattr(folder_ingest, "connect", lambda limit, spill: found.append(limit) or connect(limit, spill))
    monkeypatch.setattr(folder_ingest, "unused_memory", lambda: 1_500_000_000)
    ingest(*tables, out=tmp_path / "g")
    assert found == ["700000000 B"]
    monkeypatch.setattr(folder_ingest, "unused_memory", lambda: 700_000_000)
    with pytest.raises(DataError, match="1 GB of memory is needed to write a graph folder, and 700 MB are free"):
        ingest(*tables, out=tmp_path / "h")
    assert not (tmp_path / "h").exists()

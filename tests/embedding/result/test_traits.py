"""What sets clusters apart, beside the same counted from the tables node by node."""

from __future__ import annotations

import datetime
import statistics

import numpy as np
import pyarrow as pa
import pytest

from clnr.embedding.result.nodes import Nodes
from clnr.embedding.result.traits import Trait, traits_of
from clnr.tables import read_tables

COUNT = 120
RANDOM = np.random.default_rng(0)
GROUPS = np.sort(RANDOM.integers(0, 3, COUNT))
WORDS = ["river", "mill", "bread", "iron", "steel", "flour", "morning", "valley", "tool", "ore"]


def choose(values, group, share=0.7):
    """A value that is common in a group."""
    return values[group % len(values)] if RANDOM.random() < share else values[RANDOM.integers(len(values))]


ROWS = [
    {
        "id": f"n{i}",
        "trade": choose(["baker", "smith", "miner", None], group),
        "tags": "|".join(sorted({choose(["red", "green", "blue"], group), choose(["old", "new"], group)})),
        "about": " ".join([f"unique{i}", *(choose(WORDS, group, 0.4) for _ in range(6))]),
        "years": None if i % 9 == 0 else float(RANDOM.normal(10 * group, 8)),
        "member": bool(RANDOM.random() < (0.8 if group == 1 else 0.3)),
        "since": datetime.date(2000 + 5 * group, 1, 1) + datetime.timedelta(days=int(RANDOM.integers(900))),
        "area": choose(["north", "south"], group) if i % 3 else None,
    }
    for i, group in enumerate(GROUPS.tolist())
]


@pytest.fixture(scope="module")
def nodes():
    edges = pa.table({"source": [f"n{i}" for i in range(COUNT)], "target": [f"n{i * 7 % COUNT}" for i in range(COUNT)]})
    return Nodes(read_tables(edges, pa.Table.from_pylist(ROWS), label="area", types={"about": "text", "tags": "list"}))


def counted(group, column, has):
    """Of nodes with a value, the shares inside and outside, and their standardised difference; how many have it inside."""
    filled = [(float(has(row)), of) for row, of in zip(ROWS, GROUPS, strict=True) if row[column] is not None]
    inside, outside = ([value for value, of in filled if bool(of == group) is here] for here in (True, False))
    shares = statistics.fmean(inside), statistics.fmean(outside)
    return *shares, (shares[0] - shares[1]) / statistics.pstdev(inside + outside), sum(inside)


def telling(difference, share, group, column):
    """Whether a difference is beyond four standard errors of two means, and a value's share is a fifth."""
    groups = GROUPS[[row[column] is not None for row in ROWS]]
    inside = int(np.sum(groups == group))
    return abs(difference) >= 4 * (1 / inside + 1 / (len(groups) - inside)) ** 0.5 and share >= 0.2


def by_hand(group):
    """All traits of a group that are large enough, by column and value."""
    made = {}
    present = {
        "area": lambda row: [row["area"]],
        "trade": lambda row: [row["trade"]],
        "tags": lambda row: row["tags"].split("|"),
        "about": lambda row: row["about"].split(),
    }
    for column, parts in present.items():
        for value in {part for row in ROWS for part in parts(row)} - {None}:
            inside, outside, difference, nodes = counted(group, column, lambda row, v=value, of=parts: v in of(row))
            if difference >= 0.2 and nodes >= 2 and inside >= 0.05:
                made[column, value] = (inside, outside, difference, telling(difference, inside, group, column))
    inside, outside, difference, _ = counted(group, "member", lambda row: row["member"])
    if abs(difference) >= 0.2:
        made["member", None] = (inside, outside, difference, telling(difference, 1, group, "member"))
    for column, number in {
        "years": lambda row: row["years"],
        "since": lambda row: (row["since"] - datetime.date(1970, 1, 1)).total_seconds(),
    }.items():
        known = [(number(row), of) for row, of in zip(ROWS, GROUPS, strict=True) if row[column] is not None]
        means = [statistics.fmean(value for value, of in known if bool(of == group) is here) for here in (True, False)]
        difference = (means[0] - means[1]) / statistics.pstdev([value for value, _ in known])
        if abs(difference) >= 0.2:
            made[column, None] = (*means, difference, telling(difference, 1, group, column))
    return made


def test_they_are_those_counted_by_hand_the_largest_first(nodes):
    found = traits_of(nodes, np.arange(COUNT), GROUPS, 3)
    kinds = {}
    for group in range(3):
        expected = by_hand(group)
        assert len(found[group]) == min(5, len(expected))
        largest = sorted(((told, abs(difference)) for *_, difference, told in expected.values()), reverse=True)[:5]
        assert [trait.telling for trait in found[group]] == [told for told, _ in largest]
        assert [abs(trait.difference) for trait in found[group]] == pytest.approx([size for _, size in largest], rel=1e-5)
        for trait in found[group]:
            values = trait.inside, trait.outside, trait.difference, trait.telling
            assert values == pytest.approx(expected[trait.column, trait.value], rel=1e-5)
            kinds[trait.column] = trait.kind
    assert {"since": "time", "trade": "share"}.items() <= kinds.items()


def test_one_group_of_all_is_not_set_apart(nodes):
    assert traits_of(nodes, np.arange(COUNT), np.zeros(COUNT, int), 1) == [()]


def test_numbers_of_one_kind_of_nodes_are_compared_within_it():
    """Items have no age: their zeros do not count."""
    users = pa.table({"id": range(40), "age": [20 + i % 2 + 40 * (i >= 30) for i in range(40)]})
    items = pa.table({"id": range(20), "price": [float(i) for i in range(20)]})
    bought = pa.table({"user_id": list(range(40)), "item_id": [i % 20 for i in range(40)]})
    nodes = Nodes(read_tables({("user", "bought", "item"): bought}, {"user": users, "item": items}))
    groups = np.array([int(node.startswith("user:3") and len(node) > 6) for node in nodes.ids.tolist()])
    assert groups.sum() == 10
    _, old = traits_of(nodes, np.arange(60), groups, 2)
    (age,) = (trait for trait in old if trait.column == "user.age")
    assert (age.inside, age.outside) == (pytest.approx(60.5, abs=1e-4), pytest.approx(20.5, abs=1e-4))
    assert not any(trait.column == "item.price" for trait in old)


@pytest.mark.parametrize(("column", "most"), [("label", "web"), ("note", "web"), ("done", None)])
def test_shares_of_a_mostly_empty_column_are_of_the_nodes_with_a_value(column, most):
    """100 nodes in two groups; 10 and 6 of them have a value: 8 of 10 against 1 of 6."""
    values = [None] * 100
    values[:10], values[50:56] = ["web"] * 8 + ["gui"] * 2, ["web"] + ["gui"] * 5
    if most is None:
        values = [None if value is None else value == "web" for value in values]
    table = pa.table({"id": range(100), column: values, "years": [10 * (i >= 50) + i % 4 for i in range(100)]})
    edges = pa.table({"source": range(100), "target": [(i + 1) % 100 for i in range(100)]})
    asked = {"label": "label"} if column == "label" else {"features": [column, "years"]}
    nodes = Nodes(read_tables(edges, table, **asked))
    first, second = traits_of(nodes, np.arange(100), np.repeat([0, 1], 50), 2)
    (trait,) = (each for each in first if (each.column, each.value) == (column, most))
    assert (trait.inside, trait.outside, trait.filled) == (pytest.approx(0.8), pytest.approx(1 / 6), pytest.approx(0.2))
    name = f"{column} '{most}'" if most else column
    assert str(trait) == f"{name} 80% (17%) of the 20% with a value"
    (years,) = (each for each in first if each.column == "years")
    assert (years.filled, str(years)) == (1, "years 1.46 (11.54)")
    assert {each.filled for each in second if each.column == column} == {0.12}


def test_a_value_of_few_filled_nodes_is_no_title():
    """All of the 4 filled nodes of a group have a value that none of the 96 others have; a fifth one makes it a title."""
    groups, edges = np.repeat([0, 1], 100), pa.table({"source": range(200), "target": [(i + 1) % 200 for i in range(200)]})
    for count in (4, 5):
        labels = ["rare"] * count + [None] * (100 - count) + ["usual"] * 100
        nodes = Nodes(read_tables(edges, pa.table({"id": range(200), "label": labels}), label="label"))
        rare = traits_of(nodes, np.arange(200), groups, 2)[0][0]
        assert (rare.value, rare.inside, rare.telling) == ("rare", 1, count == 5)


def test_their_words():
    assert str(Trait("trade", "baker", 0.4, 0.012, 1.0, "share", filled=0.85)) == "trade 'baker' 40% (1%)"
    assert str(Trait("years", None, 15.6000001, 9.5, 0.6, "number")) == "years 15.6 (9.5)"
    assert str(Trait("since", None, 86400.0, -1.0, 0.6, "time")) == "since 1970-01-02 (1969-12-31)"
    # A year that DuckDB knows and Python does not.
    assert str(Trait("until", None, 9224318016000.0, 0.0, 0.6, "time")) == "until 294277-01-01 (1970-01-01)"
    assert Trait("trade", "baker", 0.4, 0.0, 1.0, "share").short == "baker"
    assert Trait("years", None, 15.6, 9.5, 0.6, "number").short == "years 15.6"
    assert Trait("label", "3", 0.4, 0.0, 1.0, "share").short == "label 3"

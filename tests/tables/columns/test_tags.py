"""Tags: lists, lists written as text, and separated text; against scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from clnr.tables import FeatureEncoder, read_tables
from tests.tables.files import saved

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TAGS = [["Action", "Sci-Fi"], ["Drama"], ["Action", "Drama", "War Film"], None, ["War Film", "Sci-Fi"], [], ["Drama", "Drama"]]
IDS = [f"m{i}" for i in range(len(TAGS))]
EDGES = pa.table({"source": IDS[:-1], "target": IDS[1:]})


def written(folder, form):
    """A table of nodes with tags; text has no empty list, which is missing there."""
    if form == "arrow":
        return pa.table({"id": IDS, "tags": TAGS})
    if form == "ids":
        number = {"Action": 3, "Drama": 11, "Sci-Fi": 200, "War Film": 7}
        return pa.table({"id": IDS, "tags": [None if row is None else [number[tag] for tag in row] for row in TAGS]})
    if form == "parquet":
        pq.write_table(pa.table({"id": IDS, "tags": TAGS}), folder / "n.parquet")
        return folder / "n.parquet"
    rows = [{"id": node, "tags": row} for node, row in zip(IDS, TAGS, strict=True)]
    if form == "jsonl":
        return saved(folder, "n.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write = {"json in csv": json.dumps, "python in csv": str, "<>": lambda row: "".join(f"<{tag}>" for tag in row)}
    separated = write.get(form, form.join)
    texts = ["" if row is None else separated(row) for row in TAGS]
    lines = ['"' + text.replace('"', '""') + '"' for text in texts]
    return saved(folder, "n.csv", "id,tags\n" + "".join(f"{node},{line}\n" for node, line in zip(IDS, lines, strict=True)))


def expected(known):
    lists = [row for row, there in zip(TAGS, known, strict=True) if there]
    oracle = TfidfVectorizer(analyzer=lambda row: row or [], binary=True).fit(lists)
    x = oracle.transform([row or [] for row in TAGS]).toarray()
    return sorted(oracle.vocabulary_), x


@pytest.mark.parametrize(
    "form", ["arrow", "parquet", "jsonl", "json in csv", "python in csv", "|", ";", " | ", ", ", "<>", "ids"]
)
def test_tags_are_a_bag_whatever_they_are_written_as(tmp_path, form):
    read = read_tables(EDGES, written(tmp_path, form))
    (encoder,) = read.feature_encoder.column_encoders
    separated = form in ("|", ";", " | ", ", ", "<>")
    known = [row is not None and not (separated and not row) for row in TAGS]
    names, x = expected(known)
    found = read.graph.features.toarray()
    assert (encoder.kind, encoder.missing, encoder.summary) == ("tags", True, "4 tags, weighted by rarity")
    if form == "ids":
        assert encoder.values == ("11", "200", "3", "7")
        x = x[:, [names.index(name) for name in ("Drama", "Sci-Fi", "Action", "War Film")]]
    else:
        assert encoder.values == tuple(names)
    assert np.allclose(found[:, :4], x, atol=1e-6)
    assert found[:, 4].tolist() == [float(not each) for each in known]


@pytest.mark.parametrize("other", ["arrow", "json in csv", "|"])
def test_tags_of_tomorrow_may_be_written_otherwise(tmp_path, other):
    first = read_tables(EDGES, written(tmp_path, "|" if other != "arrow" else "parquet"))
    again = FeatureEncoder.from_json(first.feature_encoder.to_json())
    more = read_tables(EDGES, written(tmp_path, "arrow" if other == "|" else other), feature_encoder=again)
    if other != "json in csv":
        assert np.allclose(more.graph.features.toarray()[:5, :4], first.graph.features.toarray()[:5, :4], atol=1e-6)
    assert more.graph.num_features == first.graph.num_features


def kind(values, **asked):
    nodes = pa.table({"id": [f"n{i}" for i in range(len(values))], "x": values})
    read = read_tables(pa.table({"source": ["n0"], "target": ["n1"]}), nodes, **asked)
    return {part.column: part.kind for part in read.feature_encoder.column_encoders}.get("x")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["red, blue", "blue, green", "green, red", "red"], "tags"),
        (["1,5", "2,5", "1,7", "2,7"], "number"),
        (["1,234", "1,567", "2,234", "2,567"], "category"),
        (["Paris, in the spring of a year", "Paris, in the autumn of a year"] * 30, "category"),
        ([f"It was late, and {i} of them left; nobody saw" for i in range(60)], "text"),
        ([f"a{i}|b{i}" for i in range(60)], "category"),
        (["[0.5, 1.5]", "[1, 2]", None], "vector"),
        (["[1, 2]", "[3]", "[]", "[2, 1]"], "tags"),
        ([[1, 2], [3], [2]], "tags"),
        ([[1, 2], [3, 1], [2, 4]], "vector"),
        ([[True], [False, True], None], "tags"),
        ([["a"], ["a"]], None),
        ([[], [], None], None),
    ],
)
def test_what_tags_are(values, expected):
    assert kind(values) == expected


def test_a_user_says_that_they_are_tags():
    assert kind(["1,5", "2,5", "1,7", "2,7"], types={"x": "tags"}) == "tags"
    assert kind([[1, 2], [3, 1], [2, 4]], types={"x": "tags"}) == "tags"
    assert kind(["a|b", "b", "a"], types={"x": "category"}) == "category"

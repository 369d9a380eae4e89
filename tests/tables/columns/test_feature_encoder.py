from __future__ import annotations

import json
import math
import re
import zlib

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import ClnrError, DataError
from clnr.tables import FeatureEncoder, StructuralFeatures
from clnr.tables.columns.column_encoders import COLUMN_TYPES, ColumnEncoder
from clnr.tables.io.source import describe, store
from tests.tables.files import dense


def learned(db, sql, columns=("x",), types=None):
    """The feature_encoder of a query's columns, and its features."""
    people = kept(db, f"({sql})")
    feature_encoder = FeatureEncoder.fit(db, people, columns, types)
    return feature_encoder, dense(feature_encoder.transform(db, people))


def kept(db, sql):
    db.execute("DROP TABLE IF EXISTS t")
    return store(db, describe(db, "nodes.csv", sql), "t")


def values(*texts, kind="VARCHAR"):
    rows = ", ".join("(NULL)" if text is None else f"('{text}')" for text in texts)
    return f"SELECT CAST(x AS {kind}) AS x FROM (VALUES {rows}) v(x)"


@pytest.mark.parametrize("kind", ["VARCHAR", "DOUBLE", "INTEGER", "DECIMAL(8, 2)", "UTINYINT", "HUGEINT", "BIGINT", "FLOAT"])
def test_numbers_are_scaled_whatever_they_are_written_as(db, kind):
    feature_encoder, x = learned(db, values("1", "2", "6", kind=kind))
    expected = (np.array([1, 2, 6]) - 3) / np.std([1, 2, 6])
    assert np.allclose(x[:, 0], expected, atol=1e-6)
    assert (feature_encoder.column_encoders[0].kind, feature_encoder.width) == ("number", 1)


@pytest.mark.parametrize(
    ("sql", "kind", "expected"),
    [
        (values("true", "false", None, kind="BOOLEAN"), "bool", [[1, 0], [0, 0], [0, 1]]),
        (values("yes", "No", ""), "bool", [[1, 0], [0, 0], [0, 1]]),
        (values("T", "f", "t"), "bool", [[1], [0], [1]]),
        (values("2026-01-01", "2026-01-03", kind="DATE"), "datetime", [[-1], [1]]),
        (values("10:00:00", "11:30:00", kind="TIME"), "number", [[-1], [1]]),
        (values("36:00:00", "48:30:00", kind="INTERVAL"), "number", [[-1], [1]]),
    ],
)
def test_bools_dates_and_what_is_taken_as_text(db, sql, kind, expected):
    feature_encoder, x = learned(db, sql)
    assert feature_encoder.column_encoders[0].kind == kind
    assert x.tolist() == expected


def test_few_categories_have_a_feature_each_and_an_unseen_one_none(db):
    feature_encoder, x = learned(db, values("red", "blue", " red ", None))
    assert feature_encoder.column_encoders[0].values == ("blue", "red")
    assert x.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    other = kept(db, f"({values('green', 'blue')})")
    assert dense(feature_encoder.transform(db, other)).tolist() == [[0, 0, 0], [1, 0, 0]]


def test_many_categories_have_a_feature_each_if_they_occur_twice_else_they_are_hashed(db):
    feature_encoder, x = learned(db, values(*(f"code{i}" for i in range(90))))
    (encoder,) = feature_encoder.column_encoders
    assert (encoder.kind, encoder.values, encoder.buckets, feature_encoder.width) == ("category", (), 256, 256)
    assert encoder.summary == "90 values hashed into 256 features"
    assert (x.sum(1) == 1).all()
    codes = [f"code{i:03}" for i in range(100)]
    feature_encoder, x = learned(db, values(*codes, *codes[::-1]))
    (encoder,) = feature_encoder.column_encoders
    assert (encoder.values, encoder.buckets, encoder.summary) == (tuple(codes), 0, "100 values")
    assert np.array_equal(x, np.concatenate([np.eye(100), np.eye(100)[::-1]]))


def test_vectors_are_scaled_by_one_number_and_have_one_length(db):
    feature_encoder, x = learned(db, "SELECT * FROM (VALUES ([3.0, 4.0]), ([0.0, 0.0]), (NULL)) v(x)")
    assert (feature_encoder.column_encoders[0].kind, feature_encoder.column_encoders[0].width) == ("vector", 2)
    scale = math.sqrt(25 / 4)
    assert np.allclose(x, [[3 / scale, 4 / scale, 0], [0, 0, 0], [0, 0, 1]])
    fixed, _ = learned(db, "SELECT CAST([1, i] AS FLOAT[2]) AS x FROM range(3) r(i)")
    assert fixed.column_encoders[0].kind == "vector"
    with pytest.raises(DataError, match=r"nodes.csv: 'x' has 2 numbers in some rows and another count in row 2; make all"):
        learned(db, "SELECT * FROM (VALUES ([3.0, 4.0]), ([1.0])) v(x)")


def test_an_encoding_is_the_same_after_a_file(db):
    sql = "SELECT i AS a, 'c' || (i % 3) AS b, [i, 2 * i] AS v, i % 2 = 0 AS f FROM range(9) r(i)"
    feature_encoder, x = learned(db, sql, "abvf")
    assert FeatureEncoder.from_json(feature_encoder.to_json()) == feature_encoder
    assert feature_encoder.width == x.shape[1]
    scaled = StructuralFeatures((0.1, 1 / 3, 0.0, 2.0), (1.0, 0.7, 1e-3, 1.0))
    structure = FeatureEncoder(structure=scaled, dropped={"x": "it is empty"})
    assert FeatureEncoder.from_json(structure.to_json()) == structure
    assert structure.width == 4


WHOLE = [0] * 4


@pytest.mark.parametrize(
    "change",
    [
        *({"form": 5}, {"column_encoders": 7}, {"column_encoders": []}, {"column_encoders": [{"column": "x"}]}),
        *({"dropped": None}, {"structure": {"centre": WHOLE, "scale": [1] * 4}}, {"matrix": {"width": 0}}),
        *({"structure": saved, "column_encoders": []} for saved in (7, {"centre": WHOLE}, {"centre": WHOLE, "scale": [1] * 3})),
        *({"structure": {"centre": WHOLE, "scale": scale}, "column_encoders": []} for scale in ([1, 1, 1, 0], [1, 1, 1, "1"])),
        *({"column_encoders": odd} for odd in (7, [7], ["x"], [{"column": "x", "kind": []}])),
    ],
)
def test_what_is_no_encoding_is_refused(db, change):
    given = json.loads(learned(db, values("1", "2"))[0].to_json())
    for wrong in (json.dumps(given | change), json.dumps([given]), '"text"', "{"):
        with pytest.raises(ClnrError):
            FeatureEncoder.from_json(wrong)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("values", (["a", "a"], ["a"], ["a", 7], ["a", "\ud800"], "ab", {"a": 1, "b": 2}, None)),
        ("weights", ([1.5] * 4, *([1.5, 1.5, 1.5, 1.5, last] for last in (math.nan, math.inf, 10**400, 0, -1, "1")), 7)),
        ("buckets", (2, -3, 3.0, True)),
        ("distinct", (-1, "9")),
        ("width", (6, 1 << 40, -1)),
        ("scale", (0,)),
        ("centre", ("7",)),
        ("surprise", (1,)),
        ("kind", ("__import__",)),
    ],
)
def test_damaged_encoders_of_columns_are_refused(key, wrong):
    text = ColumnEncoder("x", "text", 5, values=("a", "b"), weights=(1.5,) * 5, buckets=3, distinct=9)
    given = json.loads(FeatureEncoder((text,)).to_json())
    assert FeatureEncoder.from_json(json.dumps(given)).column_encoders == (text,)
    (column,) = given["column_encoders"]
    for value in wrong:
        with pytest.raises(ClnrError):
            FeatureEncoder.from_json(json.dumps(given | {"column_encoders": [column | {key: value}]}))


def test_numbers_so_large_that_their_squares_are_not(db):
    for unit in (1e300, 1e-200, 1.0):
        feature_encoder, x = learned(db, values(*(repr(each * unit) for each in (1.0, 2.0, 6.0)), kind="DOUBLE"))
        assert np.allclose(x[:, 0], (np.array([1, 2, 6]) - 3) / np.std([1, 2, 6]), atol=1e-6)
    assert feature_encoder.transform(db, kept(db, f"({values('1', '1e300', kind='DOUBLE')})"))[1, 0] == 0


def test_vectors_with_numbers_that_are_none(db):
    rows = "([1.0, NULL]), (['nan'::DOUBLE, 1e300]), ([-1.0, 1.0]), ([1.0, 'inf'::DOUBLE])"
    feature_encoder, x = learned(db, f"SELECT * FROM (VALUES {rows}) v(x)")
    assert (feature_encoder.column_encoders[0].scale, feature_encoder.column_encoders[0].missing) == (1.0, False)
    assert x.tolist() == [[1, 0], [0, 0], [-1, 1], [1, 0]]
    other = kept(db, "(SELECT * FROM (VALUES ([1.0]), ([1.0, 2.0]), (NULL)) v(x))")
    assert feature_encoder.transform(db, other).tolist() == [[0, 0], [1, 2], [0, 0]]
    dropped, _ = learned(db, "SELECT i, [[i]] AS x FROM range(3) r(i)", ("i", "x"))
    assert dropped.dropped == {"x": "a list of lists cannot be a feature"}


@pytest.mark.parametrize("kind", COLUMN_TYPES)
def test_tomorrow_a_column_may_be_of_any_type(db, kind):
    words = {"values": ("a", "b"), "buckets": 3} if COLUMN_TYPES[kind].token else {}
    feature_encoder = FeatureEncoder((ColumnEncoder("x", kind, 5 if words else 2 if kind == "vector" else 1, True, **words),))
    types = (
        "TIMESTAMP '2026-01-01'",
        "TIME '10:00'",
        "7",
        "true",
        "'text'",
        "[1, 2]",
        "[DATE '2026-1-1']",
        "{'a': 1}",
        "NULL",
    )
    for selected in (*(f"{each} AS x" for each in types), "1 AS other", "1 AS x WHERE false"):
        x = dense(feature_encoder.transform(db, kept(db, f"(SELECT {selected})")))
        assert x.shape == (0 if "false" in selected else 1, feature_encoder.width)
        assert np.isfinite(x).all()


# -- against one row at a time ----------------------------------------------------------------------------------------------


def feature_of(part, value):
    return part.values.index(value) if value in part.values else len(part.values) + zlib.crc32(value.encode()) % part.buckets


def slow(part, value):
    """The features of one value, from the definition."""
    row = [0.0] * part.width
    known = value is not None
    if part.kind == "number":
        known = known and math.isfinite(value)
        row = [(value - part.centre) / part.scale if known else 0.0]
    elif part.kind == "bool":
        row = [float(value in ("yes", "T"))]
    elif part.kind == "vector":
        row = [x / part.scale if x is not None and math.isfinite(x) else 0.0 for x in value] if known else row
    elif known and part.kind == "category":
        row[feature_of(part, value.strip())] = 1.0
    elif known:
        found = {feature_of(part, word) for word in re.findall(r"\w+", value.lower())}
        for feature in found:
            row[feature] = part.weights[feature] / math.sqrt(sum(part.weights[each] ** 2 for each in found))
    return row + [float(not known)] * part.missing


@pytest.mark.parametrize("rows", [9, 1 << 18])
def test_features_are_those_of_one_row_at_a_time_however_many_are_taken_together(db, monkeypatch, rows):
    monkeypatch.setattr("clnr.tables.io.source._CHUNK_ROWS", rows)
    rng = np.random.default_rng(0)
    words = ["Graph", "naïve", "ΟΔΟΣ", "of", "İ", "漢字", "x_1", "it's", "3.5", "A-B"]

    def some(make):
        return [None if rng.random() < 0.2 else make(i) for i in range(200)]

    given = {
        "number": some(lambda i: float(rng.choice([rng.normal(), math.inf, math.nan, 1e30]))),
        "bool": some(lambda i: str(rng.choice(["yes", "No", "T"]))),
        "category": some(lambda i: str(rng.choice(["red", " red ", "blü"]))),
        "code": some(lambda i: f"kode{i % 130}é" * (1 + i % 10)),
        "text": some(lambda i: " ".join(map(str, rng.choice(words, 1 + i % 9))) + f" {i}"),
        "vector": some(lambda i: [float(i), None if i % 3 else math.nan, 1.0]),
    }
    db.register("given", pa.table(given))
    people = kept(db, "given")
    feature_encoder = FeatureEncoder.fit(db, people, list(given))
    assert [part.kind for part in feature_encoder.column_encoders] == [name.replace("code", "category") for name in given]
    expected = [[x for part in feature_encoder.column_encoders for x in slow(part, given[part.column][i])] for i in range(200)]
    assert np.allclose(dense(feature_encoder.transform(db, people)), expected, atol=1e-6)
    numbers = FeatureEncoder(feature_encoder.column_encoders[:2])
    assert np.allclose(numbers.transform(db, people), np.array(expected)[:, :4], atol=1e-6)

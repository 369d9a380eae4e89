"""Numbers with a decimal comma, and dates with the day or the month first: read where values prove it, else asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from clnr.errors import DataError
from clnr.tables import FeatureEncoder, read_tables
from clnr.tables.ingest_report import column_lines
from tests.tables.files import EDGES, columns_of, saved, written

COMMAS = {"35,5351": 35.5351, "-0,5": -0.5, "1.234": 1234.0, "12.345,75": 12345.75, "7": 7.0}


def epoch(year, month, day, *time):
    return datetime(year, month, day, *time, tzinfo=UTC).timestamp()


def nodes_of(folder, values):
    return saved(folder, "n.csv", "id;x\n" + "".join(f"{name};{value}\n" for name, value in zip("abcde", values, strict=False)))


def read(folder, values, **asked):
    return read_tables(saved(folder, "e.csv", EDGES), nodes_of(folder, values), **asked)


def line_of(found):
    return next(line for line in column_lines(found.ingest_report.columns) if "'x'" in line)


@pytest.mark.parametrize(
    ("values", "right", "said"),
    [
        (list(COMMAS), list(COMMAS.values()), "number, with a decimal comma"),
        (["1,234", "0,125", "2"], [1.234, 0.125, 2.0], "number, with a decimal comma"),
        (["1 234,5", "1\u00a0000", "3"], [1234.5, 1000.0, 3.0], "number, with a decimal comma"),
        (["27/07/2023", "01/02/2024"], [epoch(2023, 7, 27), epoch(2024, 2, 1)], "date, with the day first"),
        (["31.12.2020 10:30", "1.2.1999"], [epoch(2020, 12, 31, 10, 30), epoch(1999, 2, 1)], "date, with the day first"),
        (["12/31/2020", "1/2/1999"], [epoch(2020, 12, 31), epoch(1999, 1, 2)], "date, with the month first"),
        (["2020/12/31", "2020/1/2"], [epoch(2020, 12, 31), epoch(2020, 1, 2)], "date"),
    ],
)
def test_what_values_prove_is_read(tmp_path, values, right, said):
    found = read(tmp_path, values)
    (encoder,) = found.feature_encoder.column_encoders
    assert (encoder.centre, encoder.scale) == pytest.approx((np.mean(right), np.std(right)))
    scaled = (np.array(right) - np.mean(right)) / np.std(right)
    np.testing.assert_allclose(found.graph.features[: len(right), 0], scaled, rtol=1e-5, atol=1e-6)
    assert f"feature, {said}, scaled" in line_of(found)
    assert not any("'x'" in remark for remark in found.ingest_report.remarks)


LISTS = {
    "decimal commas": ["1,5; 2,5", "0,25;3", "-7; 1,125"],
    "in brackets": ["[1,5; 2,5]", "[0,25; 3]", "[-7; 1,125]"],
    "decimal points": ["1.5|2.5", "0.25 | 3.0", "-7|1.125"],
    "blanks": ["[1.5 2.5]", "[ 0.25 3. ]", "[-7. 1.125]"],
    "commas": ["1.5, 2.5", "0.25,3.0", "-7.0, 1.125"],
}


@pytest.mark.parametrize("values", LISTS.values(), ids=LISTS)
def test_numbers_with_signs_between_them_are_vectors(tmp_path, values):
    edges, nodes = saved(tmp_path, "e.csv", EDGES), written(tmp_path, "csv", {"id": list("abc"), "x": values})
    found = read_tables(edges, nodes)
    right = np.array([[1.5, 2.5], [0.25, 3], [-7, 1.125]])
    assert columns_of(found) == {"x": "vector"}
    np.testing.assert_allclose(found.graph.features, right / np.sqrt((right**2).mean()), rtol=1e-6)
    again = FeatureEncoder.from_json(found.feature_encoder.to_json())
    frame = pa.table({"id": list("abc"), "x": right.tolist()})
    np.testing.assert_allclose(read_tables(edges, frame, feature_encoder=again).graph.features, found.graph.features, rtol=1e-6)


@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.parametrize("how", ["base", "feature_encoder"])
def test_what_a_model_does_not_know_is_counted(how, with_kinds):
    edges, name = pa.table({"source": list("abc"), "target": list("bca")}), "the data frame of nodes"
    columns = {"age": ["1", "2", "4"], "seen": ["2020-01-02", "2020-01-03", "2021-01-01"]}
    columns |= {"sort": ["u", "v", "u"], "more": ["p", "q", "p"]}
    later = {"age": ["lots", "5", ""], "seen": ["03/04/2025", "2020-01-02", None]}
    later |= {"sort": ["w", "u", "z"], "more": ["p", "r", None]}

    def tables(ids, values):
        nodes = pa.table({"id": ids, **values})
        return ({("p", "met", "p"): edges}, {"p": nodes}) if with_kinds else (edges, nodes)

    first = read_tables(*tables(list("abc"), columns))
    known = first if how == "base" else first.feature_encoder
    ids = list("xyz") if how == "base" else list("abc")
    remarks = read_tables(*tables(ids, later), **{how: known}).ingest_report.remarks[-4:]
    counts = ("'age'", "1 of 2", "lots", 1), ("'seen'", "1 of 2", "03/04/2025", 1)
    counts += ("'sort'", "2 of 3", "w", 1), ("'more'", "1 of 2", "r", 2)
    for remark, (column, share, value, row) in zip(remarks, counts, strict=True):
        assert remark.startswith(f"{name} 'p': {column}" if with_kinds else f"{name}: {column}")
        assert f"{share} values are not, such as '{value}' in row {row}," in remark
    if how == "feature_encoder":
        assert read_tables(*tables(ids, columns), feature_encoder=known).ingest_report.remarks == ()


def test_the_user_says_that_it_is_a_number_or_a_date(tmp_path):
    found = read(tmp_path, ["1,5", "unknown", "2,25", "3"], types={"x": "number"})
    assert "number, with a decimal comma" in line_of(found)
    assert "1 empty" in line_of(found)
    found = read(tmp_path, ["27/07/2023", "soon", "01/02/2024"], types={"x": "date"})
    assert "date, with the day first" in line_of(found)
    found = read(tmp_path, ["1.5", "unknown", "2,25", "3"], types={"x": "number"})
    assert "with a decimal comma" not in line_of(found)
    for kind, said in (("number", "numbers are written as 1234.5, or 1234,5"), ("date", "dates are written as 2020-12-31")):
        with pytest.raises(DataError, match=f"'x' is not a {kind}: 'much' in row 1; {said}"):
            read(tmp_path, ["much", "more"], types={"x": kind})


def test_a_saved_encoder_reads_new_tables_alike(tmp_path):
    """Also where a new table has the usual notation, or numbers that are no text."""
    found = read(tmp_path, ["1,5", "2,5", "10"])
    again = FeatureEncoder.from_json(found.feature_encoder.to_json())
    assert again == found.feature_encoder
    edges = saved(tmp_path, "e.csv", EDGES)
    for other in (nodes_of(tmp_path, ["1.5", "2,5", "10.0"]), pa.table({"id": list("abc"), "x": [1.5, 2.5, 10.0]})):
        alike = read_tables(edges, other, feature_encoder=again)
        np.testing.assert_allclose(alike.graph.features, found.graph.features, rtol=1e-6)
    usual = read(tmp_path, ["1.5", "2.5", "10"])
    assert "notation" not in usual.feature_encoder.to_json()
    np.testing.assert_allclose(usual.graph.features, found.graph.features, rtol=1e-6)


# -- tags: lists, lists written as text, and separated text; against scikit-learn -----------------------------------------

TAGS = [["Action", "Sci-Fi"], ["Drama"], ["Action", "Drama", "War Film"], None, ["War Film", "Sci-Fi"], [], ["Drama", "Drama"]]
MOVIES = [f"m{i}" for i in range(len(TAGS))]
LINKS = pa.table({"source": MOVIES[:-1], "target": MOVIES[1:]})


def with_tags(folder, form):
    """A table of nodes with tags; text has no empty list, which is missing there."""
    if form == "arrow":
        return pa.table({"id": MOVIES, "tags": TAGS})
    if form == "ids":
        number = {"Action": 3, "Drama": 11, "Sci-Fi": 200, "War Film": 7}
        return pa.table({"id": MOVIES, "tags": [None if row is None else [number[tag] for tag in row] for row in TAGS]})
    if form == "parquet":
        pq.write_table(pa.table({"id": MOVIES, "tags": TAGS}), folder / "n.parquet")
        return folder / "n.parquet"
    rows = [{"id": node, "tags": row} for node, row in zip(MOVIES, TAGS, strict=True)]
    if form == "jsonl":
        return saved(folder, "n.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write = {"json in csv": json.dumps, "python in csv": str, "<>": lambda row: "".join(f"<{tag}>" for tag in row)}
    separated = write.get(form, form.join)
    texts = ["" if row is None else separated(row) for row in TAGS]
    lines = ['"' + text.replace('"', '""') + '"' for text in texts]
    return saved(folder, "n.csv", "id,tags\n" + "".join(f"{node},{line}\n" for node, line in zip(MOVIES, lines, strict=True)))


def tag_features(known):
    lists = [row for row, there in zip(TAGS, known, strict=True) if there]
    oracle = TfidfVectorizer(analyzer=lambda row: row or [], binary=True).fit(lists)
    x = oracle.transform([row or [] for row in TAGS]).toarray()
    return sorted(oracle.vocabulary_), x


@pytest.mark.parametrize("form", ["parquet", "jsonl", "json in csv", "python in csv", "|", " | ", ", ", "<>", "ids"])
def test_tags_are_a_bag_whatever_they_are_written_as(tmp_path, form):
    read = read_tables(LINKS, with_tags(tmp_path, form))
    (encoder,) = read.feature_encoder.column_encoders
    separated = form in ("|", ";", " | ", ", ", "<>")
    known = [row is not None and not (separated and not row) for row in TAGS]
    names, x = tag_features(known)
    found = read.graph.features.toarray()
    assert (encoder.kind, encoder.missing, encoder.summary) == ("tags", True, "4 tags, weighted by rarity")
    if form == "ids":
        assert encoder.values == ("11", "200", "3", "7")
        x = x[:, [names.index(name) for name in ("Drama", "Sci-Fi", "Action", "War Film")]]
    else:
        assert encoder.values == tuple(names)
    assert np.allclose(found[:, :4], x, atol=1e-6)
    assert found[:, 4].tolist() == [float(not each) for each in known]


def kind(values, **asked):
    nodes = pa.table({"id": [f"n{i}" for i in range(len(values))], "x": values})
    read = read_tables(pa.table({"source": ["n0"], "target": ["n1"]}), nodes, **asked)
    return columns_of(read).get("x")


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

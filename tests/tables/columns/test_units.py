"""Money, percentages and other numbers with a unit: read where nearly all values have one unit, and said so."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from clnr.embedding.reporting.report_data import _column
from clnr.errors import DataError
from clnr.tables import FeatureEncoder, ingest, load_graph_folder, read_tables
from clnr.tables.columns.column_encoders import ColumnEncoder
from clnr.tables.ingest_report import column_lines
from tests.tables.files import columns_of, edge_weights, saved, written

LINKS = pa.table({"source": ["n0"], "target": ["n1"]})


def nodes_of(values):
    return pa.table({"id": [f"n{i}" for i in range(len(values))], "x": values})


def read(values, **asked):
    return read_tables(LINKS, nodes_of(values), **asked)


def line_of(found):
    return next(line for line in column_lines(found.ingest_report.columns) if "'x'" in line)


def remarks_of(found):
    return [line for line in found.ingest_report.remarks if "'x'" in line]


UNITS = {
    "dollars": (["$8,000,000", "$1,200", "$12.50", "-$3"], [8e6, 1200, 12.5, -3], "in $, with commas between thousands"),
    "dollars alone": (["$1,200", "$15,000", "$7"], [1200, 15000, 7], "in $, with commas between thousands"),
    "cents": (["$1.25", "$ 3", "$-0.5"], [1.25, 3, -0.5], "in $"),
    "euros": (["1.234,50 €", "7 €", "1 000,25€"], [1234.5, 7, 1000.25], "in €, with a decimal comma"),
    "before and after": (["€5", "6 €", "7.5€"], [5, 6, 7.5], "in €"),
    "a code": (["USD 5", "6 USD", "7.5 USD"], [5, 6, 7.5], "in USD"),
    "another dollar": (["US$ 5", "US$6", "US$7.5"], [5, 6, 7.5], "in US$"),
    "percent": (["12 %", "7%", "99.5 %", "0"], [12, 7, 99.5, 0], "in %"),
    "percent with commas": (["12,5 %", "7 %", "99,25 %"], [12.5, 7, 99.25], "in %, with a decimal comma"),
    "kilometres": (["3.5 km", "4km", "-1.25\u00a0km", ".5 km"], [3.5, 4, -1.25, 0.5], "in km"),
    "a compound": (["3.5 mg/dl", "4 mg/dl"], [3.5, 4], "in mg/dl"),
    "two words": (["3,000,000 sq ft", "4 sq ft"], [3e6, 4], "in sq ft, with commas between thousands"),
    "square metres": (["35 m²", "40.5 m²"], [35, 40.5], "in m²"),
    "one and many": (["1 year", "2 years", "10 years"], [1, 2, 10], "in year"),
    "degrees": (["20 °C", "-5 °C", "7.5°C"], [20, -5, 7.5], "in °C"),
    "thousands without a unit": (["1,234,567", "12", "1,000"], [1234567, 12, 1000], "with commas between thousands"),
    "hours and minutes": (["2 h 5 min", "45 min", "1 hour, 30 secs"], [7500, 2700, 3630], "as durations in seconds"),
    "short hours": (["2h05m", "1d 1h", "1.5h 3m"], [7500, 90000, 5580], "as durations in seconds"),
    "clock": (["1:35:20", "100:00:00.5", "2 days, 3:04:05"], [5720, 360000.5, 183845], "as durations in seconds"),
    "ISO 8601": (["PT2H5M", "P1DT1S", "PT0.5S"], [7500, 86401, 0.5], "as durations in seconds"),
    "fractions of thousands": (["1,234.5", "12", "1,000"], [1234.5, 12, 1000], "with commas between thousands"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "right", "said"), UNITS.values(), ids=UNITS)
def test_numbers_with_a_unit_are_numbers_and_it_is_said(values, right, said):
    found = read(values)
    (encoder,) = found.feature_encoder.column_encoders
    assert (encoder.centre, encoder.scale) == pytest.approx((np.mean(right), np.std(right)))
    np.testing.assert_allclose(
        found.graph.features[:, 0], (np.array(right) - np.mean(right)) / np.std(right), rtol=1e-5, atol=1e-6
    )
    assert f"feature, number, {said}, scaled to mean 0 and variance 1, 1 feature" in line_of(found)
    assert remarks_of(found) == []
    shown = _column("x", found.columns["x"].combine_chunks(), found.graph.ids.tolist(), encoder)
    np.testing.assert_allclose(shown.values, right)


@pytest.mark.parametrize(
    "values",
    [
        ["$5", "€6", "$7", "£8"],
        ["3 km", "4 m", "5 km", "6 m"],
        ["12 %", "much", "99.5 %"],
        ["1,200 km", "3,500 km"],
        ["1.234 €", "15.000 €"],
        ["1,5 km", "1.5 km"],
        ["P12", "P13", "P14"],
        ["4th", "1st", "2nd", "3rd"],
        ["10 apples and pears", "11 apples and pears"],
        ["km", "km2", "kg"],
        ["3:2", "1:15", "2:0"],
        ["1:35", "1:35:20", "2:10"],
        ["3d", "4d", "D5"],
    ],
)
def test_mixed_units_and_what_is_unclear_stay_text(values):
    assert columns_of(read(values)) == {"x": "category"}


MIXED = {
    "mass": (["3 kg", "250 g", "1.5 kg", "-4 g", "2kg"], [3, 0.25, 1.5, -0.004, 2], "kg (60%), g (40%)"),
    "length": (["1 m", "3 ft", "2 m", "0.5 mi"], [1, 0.9144, 2, 804.672], "m (50%), ft (25%), mi (25%)"),
    "time": (["2 hours", "1 hour", "90 min", "3 hours"], [2, 1, 1.5, 3], "hours (50%), hour (25%), min (25%)"),
    "density": (["5 mg/l", "0.01 g/l", "7 mg/l"], [5, 10, 7], "mg/l (67%), g/l (33%)"),
    "files": (["2 GB", "512 MB", "1 GB"], [2, 0.512, 1], "GB (67%), MB (33%)"),
    "freight": (["2 t", "300 kg", "4 t"], [2, 0.3, 4], "t (67%), kg (33%)"),
    "decimal commas": (["2,1 MW", "793 kW", "1.200,5 MW"], [2.1, 0.793, 1200.5], "MW (67%), kW (33%)"),
    "thousands": (["1,200,000 m", "35000 m", "2 km"], [1_200_000, 35_000, 2000], "m (67%), km (33%)"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "right", "shares"), MIXED.values(), ids=MIXED)
def test_mixed_units_are_told_with_a_query_that_converts_them(tmp_path, values, right, shares):
    edges = saved(tmp_path, "e.csv", "source,target\nn0,n1\n")
    nodes = written(tmp_path, "csv", {"id": [f"n{i}" for i in range(len(values))], "x": values})
    (line,) = remarks_of(read_tables(edges, nodes))
    assert f"'x' is read as category, though it has numbers in several units: {shares}; a query " in line
    unit = shares.partition(" ")[0]
    assert line.endswith(f"; or --as x=number reads those in {unit} and leaves the others empty")
    words = shlex.split(line)
    found = read_tables(edges, nodes=words[words.index("--nodes") + 1].removesuffix(";"))
    assert found.columns["x"].to_pylist() == pytest.approx(right)
    read_tables(edges, nodes, types={"x": "number"})


@pytest.mark.parametrize(("values", "right", "shares"), MIXED.values(), ids=MIXED)
def test_weights_in_mixed_units_are_refused_with_a_query_that_converts_them(tmp_path, values, right, shares):
    values, right = zip(*((value, number) for value, number in zip(values, right, strict=True) if number > 0), strict=True)
    ids = [f"n{i}" for i in range(len(values) + 1)]
    edges = written(tmp_path, "csv", {"source": ids[:-1], "target": ids[1:], "Kapazität": values}, "e")
    with pytest.raises(DataError, match=r"which is not a weight; .*a query converts all to") as caught:
        read_tables(edges, weight="Kapazität")
    words = shlex.split(str(caught.value).partition("a query converts all to ")[2])
    read = read_tables(edges=words[words.index("--edges") + 1].removesuffix(";"), weight="Kapazität")
    weights = edge_weights(read.graph)
    assert [weights[pair] for pair in pairwise(ids)] == pytest.approx(right, rel=1e-6)
    # No query goes with kinds.
    with pytest.raises(DataError, match=r"in the table itself, DuckDB's SQL converts all to [^;]* END; or --ignore"):
        read_tables({("a", "to", "b"): edges}, weight="Kapazität", source="source", target="target")


@pytest.mark.parametrize(
    ("values", "right", "said"),
    [
        (["3 kW", "12kW", "0"], [3, 12], "in kW"),
        (["1,5 km", "8 km", "1.200,25 km"], [1.5, 8, 1200.25], "in km, with a decimal comma"),
        (["$1,250", "$8", "$3.50"], [1250, 8, 3.5], "in $, with commas between thousands"),
        (["1e3", "2e-1", "5"], [1000, 0.2, 5], ""),
    ],
)
@pytest.mark.parametrize("kinds", [False, True])
def test_weights_in_one_unit_are_numbers(tmp_path, values, right, said, kinds):
    table = written(tmp_path, "csv", {"source": ["a", "b", "c"], "target": ["b", "c", "d"], "Kapazität": values}, "e")
    edges = {"one": table} if kinds else table
    first = read_tables(edges, weight="Kapazität")
    given = first.graph.edges()[2]
    assert sorted(set(given.tolist())) == pytest.approx(sorted(right), rel=1e-6)
    (info,) = (each for each in first.ingest_report.columns if each.role == "weight")
    assert (info.kind, info.note) == ("number", said)
    assert read_tables(edges, weight="Kapazität", base=first).graph.num_edges == first.graph.num_edges
    # Other units would be other weights.
    other = written(tmp_path, "csv", {"source": ["a"], "target": ["d"], "Kapazität": ["7 t"]}, "new")
    match = rf"weights in 'Kapazität' are in t, and those of the earlier graph {said[:4] or 'without a unit'}"
    with pytest.raises(DataError, match=match.replace("$", r"\$")):
        read_tables({"one": other} if kinds else other, base=first)


def test_numbers_beside_words_are_converted_and_words_are_empty(tmp_path):
    values = [f"{i},5 MW" if i % 2 else f"{i} kW" for i in range(40)] + ["0 MW", "unbekannt"]
    nodes = written(tmp_path, "csv", {"id": [f"n{i}" for i in range(42)], "x": values})
    (line,) = remarks_of(read_tables(LINKS, nodes))
    query = shlex.split(line[line.index("--nodes") :])[1].removesuffix(";")
    again = read_tables(LINKS, nodes=query)
    right = [i + 0.5 if i % 2 else i / 1000 for i in range(40)]
    assert again.columns["x"].to_pylist() == [*map(pytest.approx, right), 0, None]
    assert remarks_of(again) == []


def test_mixed_units_without_a_known_ratio_are_told():
    said = "numbers in several units: {}; --as x=number reads those in {} and leaves the others empty"
    assert said.format("$ (50%), £ (25%), € (25%)", "$") in remarks_of(read(["$5", "€6", "$7", "£8"]))[0]
    assert said.format("nm (67%), km (33%)", "nm") in remarks_of(read(["1 nm", "3 km", "2 nm"]))[0]
    assert said.format("box (67%), crates (33%)", "box") in remarks_of(read(["1 box", "3 crates", "2 box"]))[0]
    # There is no file for a query to read.
    itself = "numbers in several units: kg (67%), g (33%); in the table itself, DuckDB's SQL converts all to kg: try_cast("
    assert itself in remarks_of(read(["1 kg", "2 kg", "3 g"]))[0]
    # Thousands, or decimals.
    assert said.format("km (67%), m (33%)", "km") in remarks_of(read(["1,200 km", "2 km", "3 m"]))[0]


@pytest.mark.parametrize(
    "values",
    [
        ["1st", "2nd", "3rd", "4th"],
        ["12a", "12b", "14c", "15a"],
        [f"{i} {name} Street" for i, name in enumerate(["High", "Main", "Mill", "Park", "Church", "Station", "London"])],
        ["3 kg", "much", "4 g", "little"],
        ["3 kg", "4 kg", "five", "six"],
    ],
)
def test_what_only_looks_like_units_is_not_told(values):
    assert remarks_of(read(values)) == []


def test_nearly_all_are_enough_and_the_others_are_told():
    values = [f"${i}.50" for i in range(38)] + ["unknown", "€7", None]
    found = read(values)
    right = np.array([i + 0.5 for i in range(38)])
    np.testing.assert_allclose(found.graph.features[:38, 0], (right - right.mean()) / right.std(), rtol=1e-4, atol=1e-6)
    assert found.graph.features[:, 1].tolist() == [0] * 38 + [1] * 3
    assert "in $, scaled to mean 0 and variance 1, 2 features, 3 empty" in line_of(found)
    said = "is read as numbers in $; 1 of 39 values are not, such as '€7' in row 40, and count as empty; --as x=text"
    assert said in remarks_of(found)[0]
    later = read(["€7", *values[1:]], feature_encoder=found.feature_encoder)
    said = "2 of 39 values are not, such as '€7' in row 1, and count as empty; write them as in training"
    assert said in remarks_of(later)[0]
    unclear = [*values, "unclear", "soon"]
    assert columns_of(read(unclear))["x"] == "category"
    # Also if it is asked for.
    asked = read(unclear, types={"x": "number"})
    assert "3 of 41 values are not, such as '€7' in row 40, and count as empty" in remarks_of(asked)[0]


@pytest.mark.parametrize("asked", [{}, {"types": {"x": "number"}}])
def test_a_unit_may_be_missing(asked):
    """Not where few values have it: it may be a part of a code there."""
    found = read(["1.171,07", "9.875,73 €", "n/a", "3,50", "€ 4"], **asked)
    right = np.array([1171.07, 9875.73, 3.5, 4])
    (encoder,) = found.feature_encoder.column_encoders
    assert (encoder.centre, encoder.scale) == pytest.approx((right.mean(), right.std()))
    assert "number, in €, with a decimal comma, scaled to mean 0 and variance 1, 2 features, 1 empty" in line_of(found)
    assert remarks_of(found) == []
    assert columns_of(read(["12", "13", "12a", "14", "15"])) == {"x": "category"}
    assert columns_of(read(["1,5 €", "1.5"])) == {"x": "category"}


def test_the_user_says_what_it_is():
    values = ["$5", "€6", "$7,000", "?"]
    found = read(values, types={"x": "number"})
    assert "number, in $, with commas between thousands" in line_of(found)
    assert "2 empty" in line_of(found)
    assert columns_of(read(["3 km", "4 km"], types={"x": "category"})) == {"x": "category"}
    assert columns_of(read(["3 km", "4 km"], types={"x": "text"})) == {"x": "text"}
    with pytest.raises(DataError, match="'x' is not a number: 'much'"):
        read(["much", "more"], types={"x": "number"})


def test_a_saved_encoder_reads_new_rows_of_the_same_unit(tmp_path):
    found = read(["$1,500", "$2,500,000", "$10", None])
    again = FeatureEncoder.from_json(found.feature_encoder.to_json())
    assert again == found.feature_encoder
    new = ["$ 2,500,000", "10 $", "1500", "€10", "10 %", None]
    more = read_tables(LINKS, nodes_of(new), feature_encoder=again).graph.features
    first = found.graph.features
    np.testing.assert_array_equal(more, first[[1, 2, 0, 3, 3, 3]])
    plain = read_tables(LINKS, nodes_of([2_500_000.0, 10.0, 1500.0]), feature_encoder=again).graph.features
    np.testing.assert_array_equal(plain, first[[1, 2, 0]])
    extended = read_tables(pa.table({"source": ["n0"], "target": ["new"]}), pa.table({"id": ["new"], "x": ["$10"]}), base=found)
    np.testing.assert_array_equal(extended.graph.features[-1], first[2])


def test_an_encoder_of_before_reads_such_a_column_as_it_did():
    """As a category: its file says so, and has no units."""
    values = ["$5", "$6", "$5"]
    old = read(values, types={"x": "category"}).feature_encoder
    content = json.loads(old.to_json())
    assert "unit" not in content["column_encoders"][0]
    loaded = FeatureEncoder.from_json(json.dumps(content))
    assert loaded == old
    assert read(values, feature_encoder=loaded).graph.features.toarray().tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize("unit", ["x" * 41, "\ud800", 5])
def test_a_unit_that_none_can_be_is_refused(unit):
    with pytest.raises(DataError, match="not a valid saved feature encoder"):
        ColumnEncoder("x", "number", 1, unit=unit)
    with pytest.raises(DataError, match="not a valid saved feature encoder"):
        ColumnEncoder("x", "category", 1, values=("a",), unit="$")


def test_in_files_and_in_large_tables(tmp_path):
    """Far beyond the rows that are looked at first, one value is in another unit."""
    lines = "".join(f"n{i};{i},5 %\n" for i in range(3000))
    edges = saved(tmp_path, "e.csv", "source;target\nn0;n1\nn1;n2\n")
    nodes = saved(tmp_path, "n.csv", f"id;x\n{lines}n3000;7 km\n")
    found = read_tables(edges, nodes)
    assert "number, in %, with a decimal comma" in line_of(found)
    assert "1 of 3,001 values are not, such as '7 km' in row 3,001" in remarks_of(found)[0]
    ingest(edges, nodes, out=tmp_path / "graph")
    folder = load_graph_folder(tmp_path / "graph")
    assert (folder.graph.digest, folder.ingest_report) == (found.graph.digest, found.ingest_report)
    assert folder.feature_encoder == found.feature_encoder
    mixed = saved(tmp_path, "m.csv", "id;x\n" + lines + "".join(f"m{i};{i} km\n" for i in range(300)))
    assert "number" not in columns_of(read_tables(edges, mixed)).values()


def test_weights_with_commas_between_thousands(tmp_path):
    path = saved(tmp_path, "e.csv", "source;target;weight\na;b;1,500,000\nb;c;2.5\n")
    assert read_tables(path).graph.to_scipy().sum() / 2 == 1_500_002.5

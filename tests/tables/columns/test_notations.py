"""Numbers with a decimal comma, and dates with the day or the month first: read where values prove it, else asked for."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from clnr.errors import DataError
from clnr.tables import FeatureEncoder, read_tables
from clnr.tables.ingest_report import column_lines
from tests.tables.files import EDGES, saved

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

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
        (list(COMMAS), list(COMMAS.values()), "feature, number, with a decimal comma, scaled"),
        (["1,234", "0,125", "2"], [1.234, 0.125, 2.0], "feature, number, with a decimal comma, scaled"),
        (["1 234,5", "1\u00a0000", "3"], [1234.5, 1000.0, 3.0], "feature, number, with a decimal comma, scaled"),
        (
            ["27/07/2023", "01/02/2024", "3/4/2020"],
            [epoch(2023, 7, 27), epoch(2024, 2, 1), epoch(2020, 4, 3)],
            "feature, date, with the day first, scaled",
        ),
        (
            ["31.12.2020 10:30", "1.2.1999 00:00:15", "02.03.2004"],
            [epoch(2020, 12, 31, 10, 30), epoch(1999, 2, 1, 0, 0, 15), epoch(2004, 3, 2)],
            "feature, date, with the day first, scaled",
        ),
        (
            ["12/31/2020", "1/2/1999", "3/4/2001"],
            [epoch(2020, 12, 31), epoch(1999, 1, 2), epoch(2001, 3, 4)],
            "feature, date, with the month first, scaled",
        ),
        (
            ["2020/12/31", "2020/1/2", "2021/11/5"],
            [epoch(2020, 12, 31), epoch(2020, 1, 2), epoch(2021, 11, 5)],
            "feature, date, scaled",
        ),
    ],
)
def test_what_values_prove_is_read(tmp_path, values, right, said):
    found = read(tmp_path, values)
    (encoder,) = found.feature_encoder.column_encoders
    assert (encoder.centre, encoder.scale) == pytest.approx((np.mean(right), np.std(right)))
    scaled = (np.array(right) - np.mean(right)) / np.std(right)
    np.testing.assert_allclose(found.graph.features[: len(right), 0], scaled, rtol=1e-5, atol=1e-6)
    assert said in line_of(found)
    assert not any("'x'" in remark for remark in found.ingest_report.remarks)


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (
            ["1,234", "15,927", "7"],
            "'1,234' may have a decimal comma or one between thousands; a query says which: replace(x, ",
        ),
        (["01/02/2020", "03/04/2021", "05/05/2022"], "'01/02/2020' may have the day or the month first; a query says which: "),
        (["27.07.2020", "07.27.2020", "01.01.2020"], "strptime(x, '%d.%m.%Y') or strptime(x, '%m.%d.%Y')"),
    ],
)
def test_what_may_be_read_in_two_ways_is_told_with_the_cure(tmp_path, values, hint):
    found = read(tmp_path, values)
    assert "category" in line_of(found)
    (remark,) = (each for each in found.ingest_report.remarks if "'x'" in each)
    assert hint in remark
    wanted = "number" if "," in values[0] else "date"
    with pytest.raises(DataError) as caught:
        read(tmp_path, values, types={"x": wanted})
    assert hint in str(caught.value)


def test_the_user_says_that_it_is_a_number_or_a_date(tmp_path):
    found = read(tmp_path, ["1,5", "unknown", "2,25", "3"], types={"x": "number"})
    assert "number, with a decimal comma" in line_of(found)
    assert "1 empty" in line_of(found)
    found = read(tmp_path, ["27/07/2023", "soon", "01/02/2024"], types={"x": "date"})
    assert "date, with the day first" in line_of(found)
    found = read(tmp_path, ["1.5", "unknown", "2,25", "3"], types={"x": "number"})
    assert "with a decimal comma" not in line_of(found)
    for kind, said in (("number", "numbers are written as 1234.5, or 1234,5"), ("date", "dates are written as 2020-12-31")):
        with pytest.raises(DataError, match=f"'x' is no {kind}: 'much' in row 1; {said}"):
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


def test_weights_and_times_of_edges(tmp_path):
    path = saved(tmp_path, "e.csv", "source;target;weight;day\na;b;1,5;27/07/2023\nb;c;2;01/02/2024\nc;d;0,25;03/03/2024\n")
    found = read_tables(path, edge_time="day", until="2024-02-01")
    assert found.graph.to_scipy().sum() / 2 == 3.5
    assert "edges 'weight': weight, number: with a decimal comma" in column_lines(found.ingest_report.columns)
    assert "edges 'day': time, date" in column_lines(found.ingest_report.columns)
    with pytest.raises(DataError, match=r"'1,500' in row 1, which is no weight; .*replace\(weight, ',', '.'\)::DOUBLE, or"):
        read_tables(saved(tmp_path, "e.csv", "source;target;weight\na;b;1,500\nb;c;2\n"))

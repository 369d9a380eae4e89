"""Money, percentages and other numbers with a unit: read where nearly all values have one unit, and said so."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from clnr.embedding.result.report_data import _column
from clnr.tables import FeatureEncoder, read_tables
from clnr.tables.ingest_report import column_lines
from tests.tables.files import columns_of, saved

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
    "euros": (["1.234,50 €", "7 €", "1 000,25€"], [1234.5, 7, 1000.25], "in €, with a decimal comma"),
    "before and after": (["€5", "6 €", "7.5€"], [5, 6, 7.5], "in €"),
    "kilometres": (["3.5 km", "4km", "-1.25\u00a0km", ".5 km"], [3.5, 4, -1.25, 0.5], "in km"),
    "two words": (["3,000,000 sq ft", "4 sq ft"], [3e6, 4], "in sq ft, with commas between thousands"),
    "thousands without a unit": (["1,234,567", "12", "1,000"], [1234567, 12, 1000], "with commas between thousands"),
    "hours and minutes": (["2 h 5 min", "45 min", "1 hour, 30 secs"], [7500, 2700, 3630], "as durations in seconds"),
    "clock": (["1:35:20", "100:00:00.5", "2 days, 3:04:05"], [5720, 360000.5, 183845], "as durations in seconds"),
    "ISO 8601": (["PT2H5M", "P1DT1S", "PT0.5S"], [7500, 86401, 0.5], "as durations in seconds"),
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


def test_weights_with_commas_between_thousands(tmp_path):
    path = saved(tmp_path, "e.csv", "source;target;weight\na;b;1,500,000\nb;c;2.5\n")
    assert read_tables(path).graph.to_scipy().sum() / 2 == 1_500_002.5

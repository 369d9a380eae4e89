"""The type of each column by its values, and its features against NumPy."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from clnr.errors import ClnrError, DataError
from clnr.tables import read_tables
from clnr.tables.columns.feature_encoder import FeatureEncoder
from tests.tables.files import columns_of, dense, encoder_of

COUNT = 40
IDS = [f"n{i}" for i in range(COUNT)]
EDGES = pa.table({"source": IDS, "target": [*IDS[1:], IDS[0]]})
RNG = np.random.default_rng(1)


def read(values, name="x", **more):
    return read_tables(EDGES, pa.table({"id": IDS, name: values}), **more)


WORDS = ["red old house", "blue old car", "new red car", "blue house"]
TYPES = {
    "number": [str(each) for each in RNG.normal(0, 9, COUNT).round(3)],
    "number ": [f"{each:.2e}" for each in RNG.uniform(1, 2, COUNT)],
    "time": [f"2021-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(COUNT)],
    "time ": [f"2021/{1 + i % 12}/{1 + i % 28} 10:{i:02}" for i in range(COUNT)],
    "boolean": ["Yes", "no"] * (COUNT // 2),
    "boolean ": ["T", "f", "", "true"] * (COUNT // 4),
    "category": ["a", "b", "c", "a"] * (COUNT // 4),
    "category ": ["01067", "04103"] * (COUNT // 2),
    "text": [f"{WORDS[i % 4]} {i}" for i in range(COUNT)],
    "unused": [f"word{i}" for i in range(COUNT)],
    "unused ": [str(7 + i) for i in range(COUNT)],
    "unused  ": ["x", *[""] * (COUNT - 1)],
    "unused   ": ["same"] * COUNT,
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_column_has_the_type_that_all_its_values_have(kind):
    assert columns_of(read(TYPES[kind]))["x"] == kind.strip()


@pytest.mark.parametrize("name", ["region_id", "regionId", "region ID"])
def test_a_column_called_id_is_a_category(name):
    assert columns_of(read([i % 4 for i in range(COUNT)], name))[name] == "category"
    assert columns_of(read([1000 + 7 * i for i in range(COUNT)], name))[name] == "unused"
    assert columns_of(read([i % 4 for i in range(COUNT)], "paid"))["paid"] == "number"


def test_numbers_and_times_have_mean_0_and_variance_1():
    values = RNG.lognormal(3, 2, COUNT)
    values[5] = np.nan
    x = dense(read(values).features)
    known = values[~np.isnan(values)]
    assert np.allclose(x[:, 0], np.where(np.isnan(values), 0, (values - known.mean()) / known.std()), atol=1e-5)
    assert x[:, 1].tolist() == np.isnan(values).tolist()
    days = np.array(["2020-01-01", "2020-03-01"], "datetime64[D]").repeat(COUNT // 2)
    assert np.allclose(dense(read(pa.array(days)).features)[:, 0], [-1] * 20 + [1] * 20)


def test_large_offsets_lose_nothing():
    x = dense(read(1e15 + np.arange(COUNT) % 5).features)[:, 0]
    fine = np.arange(COUNT) % 5
    assert np.allclose(x, (fine - fine.mean()) / fine.std(), atol=1e-3)


def test_of_many_values_those_that_occur_twice_have_a_feature():
    ids = [f"n{i}" for i in range(120)]
    edges = pa.table({"source": ids, "target": ids[::-1]})
    graph = read_tables(edges, pa.table({"id": ids, "x": [f"v{i % 60}" if i < 100 else f"w{i}" for i in range(120)]}))
    (encoder,) = encoder_of(graph).columns
    assert (len(encoder.values), encoder.buckets, encoder.distinct) == (40, 256, 80)
    assert (np.diff(graph.features.indptr) == 1).all()


@pytest.mark.parametrize(("values", "said"), [(["$5", "$7", "free", "$9"], r"'\$5'"), (["1.234,50", "3,1", "7,0", "2"], "3,1")])
def test_numbers_with_signs_are_refused_until_a_type_is_named(values, said):
    column = values * (COUNT // 4)
    with pytest.raises(DataError, match=rf"'x' .*{said}"):
        read(column)
    assert columns_of(read(column, types={"x": "category"}))["x"] == "category"
    with pytest.raises(DataError, match=r"'x'.*row"):
        read(column, types={"x": "time"})


def test_lists_are_tags_or_vectors():
    assert columns_of(read([["a", "b"], ["b"], [], ["c"]] * 10))["x"] == "list"
    vectors = RNG.normal(0, 3, (COUNT, 3))
    x = dense(read(pa.array(vectors.tolist())).features)
    assert np.allclose(x, vectors / np.sqrt(np.square(vectors).mean()), atol=1e-5)
    tags = dense(read(["red|old", "red", "new|big", ""] * 10, types={"x": "list"}).features)
    assert ((tags > 0).sum(1)).tolist() == [2, 1, 2, 1] * 10


def test_a_saved_encoder_is_the_same_and_a_damaged_one_refused():
    graph = read_tables(EDGES, pa.table({"id": IDS} | {f"x{i}": values for i, values in enumerate(TYPES.values())}))
    encoder = encoder_of(graph)
    saved = json.loads(json.dumps(encoder.to_json()))
    assert FeatureEncoder.of(saved) == encoder
    for wrong in (
        {"columns": [{**saved["columns"][0], "kind": "money"}]},
        {"columns": [{**saved["columns"][0], "scale": 0.0}]},
        {"columns": [{**saved["columns"][0], "width": 2**40}]},
        {"columns": [{**saved["columns"][0], "more": 1}]},
        {"columns": 3},
        {"columns": []},
    ):
        with pytest.raises(ClnrError):
            FeatureEncoder.of(saved | wrong)

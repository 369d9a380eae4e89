"""Columns that tell the label by themselves."""

import numpy as np
import pyarrow as pa
import pytest

from clnr.tables import read_tables


def lines(label, **columns):
    count = len(label)
    edges = pa.table({"source": range(count), "target": [*range(1, count), 0]})
    graph = read_tables(edges, pa.table({"id": range(count), "y": label, **columns}), label="y")
    return [line for line in graph.ingest_report.remarks if "alone predicts" in line]


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_a_column_that_is_filled_in_after_the_label_is_told(dense):
    rng = np.random.default_rng(0)
    label = np.where(np.arange(400) % 40 == 0, "fraud", None if dense else "fine").tolist()
    fraud = [each == "fraud" for each in label]
    label = [each or "fine" for each in label]
    # Empty for all but one node without fraud; a number, or one of several words, otherwise.
    filled = [float(rng.random()) if dense else rng.choice(["police", "bank", "owner"]) for _ in label]
    reason = [value if is_fraud or i == 1 else None for i, (value, is_fraud) in enumerate(zip(filled, fraud, strict=True))]
    others = {"size": rng.random(400), "often": [None if rng.random() < 0.1 else float(rng.random()) for _ in label]}
    if not dense:
        others["town"] = rng.choice(["a", "b", "c"], 400)
    (line,) = lines(label, reason=reason, **others)
    assert line.startswith("warning: 'reason' alone predicts the label 'y' of nearly every node; ")
    assert line.endswith(": --ignore reason")
    # The correlation is that of the table of both: np.corrcoef.
    has = np.array([each is not None for each in reason], float)
    assert np.corrcoef(has, np.array(fraud, float))[0, 1] > 0.95
    reason[3:6] = filled[3:6]
    has = np.array([each is not None for each in reason], float)
    assert np.corrcoef(has, np.array(fraud, float))[0, 1] < 0.95
    assert lines(label, reason=reason, **others) == []


def test_a_column_tells_several_classes_only_if_it_tells_each():
    label = np.array(["north", "south", "east"])[np.arange(90) % 3]
    code = np.char.add("code ", np.arange(90).astype(str))
    code[:] = np.array(["n", "s", "e"])[np.arange(90) % 3]
    assert [line.split("'")[1] for line in lines(label.tolist(), code=code)] == ["code"]
    half = np.where(code == "e", "s", code)
    assert lines(label.tolist(), code=half) == []
    # Too few nodes of a class, and graphs without labels, tell nothing.
    assert lines(label[:12].tolist(), code=code[:12]) == []

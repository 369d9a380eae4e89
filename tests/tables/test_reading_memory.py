"""Reading keeps within the memory that is unused, or says how much it needs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from clnr.errors import DataError
from clnr.support.humanize import parse_bytes
from clnr.support.machine import memory
from clnr.tables import folder_ingest, ingest, read, read_tables

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

NODES, EDGES, COLUMNS = 2000, 20_000, 20


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, NODES, (2, EDGES))
    columns = {f"x{i}": rng.normal(size=NODES) for i in range(COLUMNS)}
    return pa.table({"source": ends[0], "target": ends[1]}), pa.table({"id": np.arange(NODES), **columns})


@pytest.fixture
def unused(monkeypatch):
    return lambda amount: monkeypatch.setattr(memory, "unused_memory", lambda: amount)


@pytest.fixture
def limits(monkeypatch):
    """What DuckDB was allowed to take."""
    found, connect = [], read.connect
    monkeypatch.setattr(read, "connect", lambda limit: found.append(limit) or connect(limit))
    return found


def test_duckdb_takes_a_third_of_what_is_unused(tables, unused, limits):
    for amount in (900_000_000, 60_000_000, None):
        unused(amount)
        assert read_tables(*tables).graph.num_nodes == NODES
    read_tables(*tables, memory="250 MB")
    assert limits == ["300000000 B", "100000000 B", None, "250 MB"]


def test_what_will_not_fit_is_refused_with_the_figure(tables, unused):
    unused(2_000_000)
    with pytest.raises(DataError, match="2 MB are free; clnr ingest writes them as a graph folder") as refused:
        read_tables(*tables)
    needed = parse_bytes(re.search(r"about (.*?) of memory", str(refused.value))[1])
    # At least the edges in two directions, and each number as it was given and as a feature.
    assert needed > EDGES * 2 * 8 + NODES * COLUMNS * (8 + 4)
    unused(2 * needed)
    read_tables(*tables)


def test_small_tables_are_read_in_little_memory(unused):
    unused(1_000_000)
    edges = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
    assert read_tables(edges, pa.table({"id": ["a", "b", "c"], "x": [1, 2, 4]}), memory="4 GB").graph.num_nodes == 3
    assert read_tables(edges).graph.num_nodes == 3


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

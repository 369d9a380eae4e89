"""Shards have the columns of an embedding in one file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.embedding.job import embed_folder, embed_tables
from clnr.embedding.store.artifact_files import VECTORS
from clnr.tables import ingest
from tests.embedding.stages.test_graph_in_files import MEMORY, settings


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("given", ["nodes of two kinds", "edges of two kinds", "one kind"])
def test_shards_have_the_columns_of_one_file(given, tmp_path):
    random = np.random.default_rng(0)
    user, item = random.integers(0, 60, 400), random.integers(0, 50, 400)
    edges = pa.table({"source": user, "target": item})
    nodes = None
    if given != "one kind":
        edges = {("user", "bought", "item"): edges}
    if given == "nodes of two kinds":
        nodes = {
            "user": pa.table({"id": np.arange(60), "age": random.normal(size=60)}),
            "item": pa.table({"id": np.arange(50), "price": random.normal(size=50)}),
        }
    chosen = settings("Untrained")
    embed_tables({"edges": edges, "nodes": nodes}, tmp_path / "whole", chosen, report=False)
    folder = ingest(edges, nodes, out=tmp_path / "graph")
    assert embed_folder(folder, tmp_path / "shards", chosen, MEMORY).z.shards > 1
    whole = pq.read_table(tmp_path / "whole" / VECTORS)
    found = pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / "shards" / "embeddings").iterdir()))
    assert ("node_kind" in found.column_names) == (given != "one kind")
    assert found.schema == whole.schema
    for name in found.column_names[:-1]:
        assert found[name].to_pylist() == whole[name].to_pylist()
    np.testing.assert_allclose(np.stack(found["vector"].to_pylist()), np.stack(whole["vector"].to_pylist()), atol=1e-5)

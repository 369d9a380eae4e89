"""Shards have the columns of an embedding in one file, and are exported and extended as that is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clnr.embedding.extend import extend
from clnr.embedding.result.artifact import Output, load_result, write_formats
from clnr.embedding.result.artifact_files import OWN_FILES, VECTORS
from clnr.embedding.result.export import WRITERS, write_clusters
from clnr.tables import ingest
from tests.embedding.jobs import embed_folder, embed_tables
from tests.embedding.test_from_files import settings


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
    assert embed_folder(folder, tmp_path / "shards", chosen).z.paths[1:]
    whole = pq.read_table(tmp_path / "whole" / VECTORS)
    found = pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / "shards" / "embeddings").iterdir()))
    assert ("node_kind" in found.column_names) == (given != "one kind")
    assert found.schema == whole.schema
    for name in found.column_names[:-1]:
        assert found[name].to_pylist() == whole[name].to_pylist()
    np.testing.assert_allclose(np.stack(found["vector"].to_pylist()), np.stack(whole["vector"].to_pylist()), atol=1e-5)
    assert_exported_as_in_memory(tmp_path / "shards", tmp_path / "whole")
    new = {"edges": pa.table({"source": [7, 1000], "target": [3, 3]})}
    if given != "one kind":
        new = {"edges": {("user", "bought", "item"): new["edges"]}}
    for name in ("whole", "shards"):
        extend(load_result(tmp_path / name), new, chosen.engine, output=Output(tmp_path / f"{name} extended"))
    larger, extended = (load_result(tmp_path / f"{name} extended") for name in ("whole", "shards"))
    assert extended.graph.digest == larger.graph.digest
    assert extended.graph.num_nodes == len(whole) + 1
    np.testing.assert_allclose(extended.z, larger.z, atol=1e-5)


def assert_exported_as_in_memory(shards: Path, whole: Path) -> None:
    """Byte for byte, given the same vectors."""
    in_files = load_result(shards)
    in_memory = dataclasses.replace(load_result(whole), z=np.asarray(in_files.z))
    for path, write in zip(write_formats(shards, [*WRITERS]), WRITERS.values(), strict=True):
        write(in_memory, whole / path.name)
        assert path.parent == shards
        assert path.read_bytes() == (whole / path.name).read_bytes()
    assert np.array_equal(np.load(whole / "embeddings.npy"), in_memory.z)
    for result, folder in ((in_files, shards), (in_memory, whole)):
        write_clusters(result.graph, result.clusters.assignment, folder.with_suffix(".csv"))
    assert shards.with_suffix(".csv").read_bytes() == whole.with_suffix(".csv").read_bytes()
    assert OWN_FILES.find_foreign(shards) is None

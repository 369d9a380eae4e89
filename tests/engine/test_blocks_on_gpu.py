"""A graph in files on a GPU: a CPU finds the nodes of a step, and kernels compute, interpreted where there is no GPU."""

import numpy as np
import pytest
from benchmarks._graph_folders import write_graph

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.engine import View, cpu_engine
from clnr.engine.blocks import FrontierOperators, in_blocks
from tests.conftest import tiny
from tests.embedding.jobs import embed_folder
from tests.engine.conftest import DROPS, FUSED, MASKS, exact
from tests.engine.dense_views import assert_rows_of_the_whole
from tests.engine.gpu.test_cuda_frontier import SOME, wanted

pytest.importorskip("numba")
pq = pytest.importorskip("pyarrow.parquet")

KERNELS = [*FUSED, pytest.param(exact, id="gpu", marks=pytest.mark.gpu)]


@pytest.mark.parametrize(
    ("name", "drop", "mask"),
    [
        ("usual", "half", "columns"),
        ("usual", "pairs", "elements"),
        ("sparse features", "half", "columns"),
        ("directed, weighted, sparse", "all", "elements"),
        ("no edges", "none left", "all"),
    ],
)
@pytest.mark.parametrize("engine", KERNELS, indirect=True)
def test_rows_and_gradients_are_those_in_memory(tmp_path, engine, name, drop, mask):
    given, in_memory = (
        View(device_graph, DROPS[drop], MASKS[mask])
        for device_graph in (in_blocks(write_graph(SOME[name], tmp_path / "graph")), engine.to_device(SOME[name]))
    )
    operators = assert_rows_of_the_whole(engine, given, wanted(SOME[name]).tolist(), in_memory, rtol=2e-4, atol=3e-5)
    assert isinstance(operators, FrontierOperators)


@pytest.mark.gpu
@pytest.mark.parametrize("sparse", [False, True])
def test_vectors_read_outs_and_walks_on_a_gpu_are_those_in_memory(tmp_path, cuda, sparse):
    graph = tiny(nodes=400, edges=1500, sparse=sparse)
    folder = write_graph(graph, tmp_path / "graph")
    changes = {"epochs": 3, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled", "structure": 6}
    settings = Settings(methods.CLNR_MIX, exact(), recipe=changes, hold_out=0.1)
    found = embed_folder(folder, tmp_path / "out", settings)
    tables = [pq.read_table(path)["vector"] for path in sorted((tmp_path / "out" / "embeddings").iterdir())]
    z = np.concatenate([np.stack(table.to_pylist()) for table in tables])
    np.testing.assert_allclose(z, found.model.embed(graph, cpu_engine()), rtol=1e-2, atol=1e-2)

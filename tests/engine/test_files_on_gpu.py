"""A graph in files on a GPU: a CPU finds the nodes of a step, and kernels compute, interpreted where there is no GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks._graph_folders import write_graph

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.fitted_model import FittedModel
from clnr.embedding.job import embed_folder
from clnr.embedding.planning.file_plan import fits_memory, plan
from clnr.embedding.stages.graph_in_files import GraphInFiles
from clnr.engine import cpu_engine
from clnr.engine.block_engine import FrontierOperators
from clnr.experiments.learn import learn
from clnr.training.loop import fit
from tests.conftest import tiny
from tests.engine.conftest import DROPS, FUSED, MASKS, exact
from tests.engine.gpu.test_cuda_frontier import SOME, assert_rows_equal

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
    given = write_graph(SOME[name], tmp_path / "graph")
    operators = assert_rows_equal(engine, SOME[name], DROPS[drop], MASKS[mask], given=given)
    assert isinstance(operators, FrontierOperators)


@pytest.mark.gpu
@pytest.mark.parametrize("sparse", [False, True])
def test_training_and_blocks_on_a_gpu_are_those_in_memory(tmp_path, cuda, sparse):
    graph = tiny(nodes=400, edges=1500, sparse=sparse)
    folder, engine = write_graph(graph, tmp_path / "graph"), exact()
    changes = {"epochs": 5, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled", "structure": 0}
    settings = Settings(methods.CLNR, engine, recipe=changes)
    recipe, _ = plan(folder, settings, 4_000_000_000)
    assert fits_memory(folder, settings, None)
    assert not fits_memory(folder, settings, 1000)
    one, other = (fit(methods.CLNR.build(recipe), engine, engine.to_device(each), recipe, 0) for each in (folder, graph))
    torch.testing.assert_close(one.losses, other.losses, rtol=1e-4, atol=1e-5)
    trained = learn(methods.CLNR, graph, 0, recipe, engine)
    parameters = {each: value.cpu() for each, value in trained.fitted.parameters.items()}
    (tmp_path / "embeddings").mkdir()
    model = FittedModel(methods.CLNR, 0, recipe, parameters, graph.num_features)
    GraphInFiles(folder, settings, recipe, tmp_path, block_rows=500).embed(model)
    tables = [pq.read_table(path)["vector"] for path in sorted((tmp_path / "embeddings").iterdir())]
    z = np.concatenate([np.stack(table.to_pylist()) for table in tables])
    np.testing.assert_allclose(z, trained.z.cpu().numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("sparse", [False, True])
def test_read_outs_and_walks_on_a_gpu_are_those_in_memory(tmp_path, cuda, sparse):
    graph = tiny(nodes=400, edges=1500, sparse=sparse)
    folder = write_graph(graph, tmp_path / "graph")
    changes = {"epochs": 3, "hidden": 16, "dimension": 8, "sampled_nodes": 64, "moments": "sampled", "structure": 6}
    settings = Settings(methods.CLNR_MIX, exact(), recipe=changes, hold_out=0.1)
    found = embed_folder(folder, tmp_path / "out", settings, 4_000_000_000)
    tables = [pq.read_table(path)["vector"] for path in sorted((tmp_path / "out" / "embeddings").iterdir())]
    z = np.concatenate([np.stack(table.to_pylist()) for table in tables])
    np.testing.assert_allclose(z, found.model.embed(graph, cpu_engine()), rtol=1e-2, atol=1e-2)

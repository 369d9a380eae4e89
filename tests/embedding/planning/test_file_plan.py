"""What a graph in files takes, before it is trained on: memory, disk, and what cannot work."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning import file_plan
from clnr.embedding.planning.file_plan import fits_memory, plan
from clnr.engine import choose
from clnr.errors import MethodError, OutOfMemory, RecipeError
from clnr.graph.csr import CSR
from clnr.graph.folder import open_graph
from clnr.methods.presets import preset
from clnr.support.machine import memory
from tests.embedding.stages.test_graph_in_files import MEMORY, random_folder, settings

pytestmark = pytest.mark.usefixtures("options")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return random_folder(tmp_path_factory.mktemp("graphs") / "graph")


def test_a_small_graph_is_not_refused_for_what_python_and_torch_take(folder):
    """They take 750 MB for each worker, and the plan says so where that is more than may be used."""
    _, one = plan(folder, settings(), 1_000_000_000)
    _, two = plan(folder, settings(), 1_000_000_000, 2)
    assert all(7.5e8 < each.memory / each.workers < 8e8 for each in (one, two))
    more = "more than the 1.0 GB that may be used: Python and torch alone take 750 MB in each process"
    assert [more in str(each) for each in (one, two)] == [False, True]


def test_what_does_not_fit_is_refused_with_what_it_needs_and_has(folder, monkeypatch):
    monkeypatch.setattr(file_plan, "SMALL_BYTES", 0)
    large = settings(changes={"sampled_nodes": 60, "hidden": 4096})
    with pytest.raises(OutOfMemory, match=r"needs about 820 MB of memory, and 700 MB may be used"):
        plan(folder, large, 700_000_000)
    with pytest.raises(OutOfMemory, match=r"of memory in each of 2 processes, and 700 MB may be used"):
        plan(folder, large, 1_400_000_000, 2)


def test_memory_follows_the_graph_and_not_what_is_free(folder, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**12)
    _, small = plan(folder, settings(), None)
    # What the process itself takes, and little more.
    assert small.memory < 1e9
    many = 50_000_000
    shapes = (np.float32, (many, folder.num_features)), (np.int64, (many + 1,)), (np.int32, (6 * many,))
    x, indptr, indices = (np.broadcast_to(np.zeros(1, dtype), shape) for dtype, shape in shapes)
    large = dataclasses.replace(folder, features=x, incoming=CSR(indptr, indices, None))
    some, more = (plan(large, settings(changes={"structure": 256}), bound)[1].memory for bound in (4e9, 40e9))
    assert 2e9 < some <= 4e9 < more <= 40e9


def test_many_features_take_memory_for_the_rows_that_direct_them(folder):
    many = 1_000_000
    shapes = (np.float32, (many, 5000)), (np.int64, (many + 1,)), (np.int32, (6 * many,))
    x, indptr, indices = (np.broadcast_to(np.zeros(1, dtype), shape) for dtype, shape in shapes)
    large = dataclasses.replace(folder, features=x, incoming=CSR(indptr, indices, None))
    assert plan(large, settings("CLNR-mix"), 8e9)[1].memory <= 8e9
    # 74,000 of these rows.
    with pytest.raises(OutOfMemory):
        plan(large, settings("CLNR-mix"), 3e9)


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("CLNR", {"changes": {"moments": "all"}}, "each step computes the rows of all nodes, unless moments=sampled"),
        ("CLNR", {"changes": {"sampled_nodes": 0}}, "each step computes the rows of all nodes"),
        ("Spectral", {}, "Spectral looks at all of the graph"),
        ("GCA", {}, "AdaptiveDropEdges looks at all of the graph"),
    ],
)
def test_what_needs_all_rows_is_refused_with_advice(folder, method, more, said):
    with pytest.raises(MethodError) as caught:
        plan(folder, settings(method, **more), MEMORY)
    assert said in str(caught.value)
    assert "--method CLNR with its defaults works" in str(caught.value)


def test_the_plan_of_several_workers_is_of_all_of_them(folder, monkeypatch):
    monkeypatch.setattr(file_plan, "_LEAST_BLOCK_ROWS", 1)
    (_, one), (_, two) = (plan(folder, settings(), 2 * MEMORY, workers) for workers in (1, 2))
    assert one.memory < two.memory <= 2 * MEMORY
    assert two.block_rows < one.block_rows
    assert two.to_dict()["workers"] == 2
    assert "2 workers, from files" in str(two)
    assert "workers" not in str(one)
    with pytest.raises(RecipeError, match="100 workers cannot share 64 nodes of a step; start at most 64"):
        plan(folder, settings(), MEMORY, 100)


def test_a_graph_fits_in_memory_if_every_worker_can_load_it(folder):
    needed = 700_000_000
    assert fits_memory(folder, settings(), None)
    assert not fits_memory(folder, settings(), 500_000_000)
    assert fits_memory(folder, settings(), needed)
    assert not fits_memory(folder, settings(), needed, 2)
    assert fits_memory(folder, settings(), 2 * needed, 2)


def test_recipes_of_folders_are_those_of_graphs(folder):
    graph = open_graph(folder.stored.path)
    for chosen in (settings(), Settings(methods.CLNR_MIX, choose("cpu"))):
        assert chosen.recipe_for(graph)[0] == chosen.recipe_for(graph.in_memory())[0]
    assert preset(methods.CLNR, str(folder.stored.path)) == preset(methods.CLNR, None)

"""What a graph in files takes, before it is trained on: memory, disk, and what cannot work."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnr import methods
from clnr.embedding.fit_settings import Settings
from clnr.embedding.planning import memory_bound, plan
from clnr.embedding.planning.plan import make_plan
from clnr.engine import choose
from clnr.errors import MethodError, OutOfMemory, RecipeError
from clnr.graph.csr import CSR
from clnr.graph.folder import open_graph
from clnr.methods.presets import preset
from clnr.support.machine import memory
from tests.embedding.jobs import planned
from tests.embedding.test_from_files import random_folder, settings

pytestmark = pytest.mark.usefixtures("options")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return random_folder(tmp_path_factory.mktemp("graphs") / "graph")


def enlarged(folder, nodes, features, degree):
    """A graph in files of which only the sizes are looked at."""
    x = np.broadcast_to(np.zeros(1, np.float32), (nodes, features))
    indices = np.broadcast_to(np.zeros(1, np.int32), (degree * nodes,))
    indptr = np.zeros(nodes + 1, np.int64)
    indptr[-1] = len(indices)
    edges = CSR(indptr, indices, None)
    return dataclasses.replace(folder, features=x, incoming=edges, outgoing=edges)


def test_a_small_graph_is_not_refused_for_what_python_and_torch_take(folder):
    """They take 650 MB for each worker."""
    one, two = planned(folder, settings(), 10_000), planned(folder, settings(), 10_000, 2)
    assert all(6.5e8 < each.memory / each.workers < 7e8 for each in (one, two))
    assert None not in (one.block_rows, two.block_rows)


def test_what_does_not_fit_is_refused_with_what_it_needs_and_has(folder, monkeypatch):
    monkeypatch.setattr(plan, "SMALL_BYTES", 0)
    large = settings(changes={"sampled_nodes": 60, "hidden": 4096})
    with pytest.raises(OutOfMemory, match=r"needs about 720 MB of memory, and 600 MB may be used; --memory"):
        planned(folder, large, 600_000_000)
    with pytest.raises(OutOfMemory, match=r"of memory in each of 2 processes, and 600 MB may be used"):
        planned(folder, large, 1_200_000_000, 2)
    tables = folder.in_memory()
    with pytest.raises(OutOfMemory, match=r"needs about \d+ MB of memory, and 600 MB may be used"):
        make_plan(tables, large, 600_000_000)
    monkeypatch.setattr(memory, "free_memory", lambda device: 600_000_000)
    with pytest.raises(OutOfMemory):
        make_plan(tables, large)


def test_memory_follows_the_graph_and_not_what_is_free(folder, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**12)
    small = planned(folder, settings(), None)
    # What the process itself takes, and little more.
    assert (small.block_rows, small.memory < 1e9) == (None, True)
    many = 50_000_000
    large = enlarged(folder, many, folder.num_features, 6)
    some, more = (planned(large, settings(changes={"structure": 256}), bound).memory for bound in (4e9, 40e9))
    assert 2e9 < some <= 4e9 < more <= 40e9


def test_many_features_take_memory_for_the_rows_that_direct_them(folder):
    many = 1_000_000
    large = enlarged(folder, many, 5000, 24)
    assert planned(large, settings("CLNR-mix"), 8e9).memory <= 8e9
    # 74,000 of these rows.
    with pytest.raises(OutOfMemory):
        planned(large, settings("CLNR-mix"), 3e9)


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("CLNR", {"changes": {"moments": "all"}}, "each step computes the rows of all nodes, unless moments=sampled"),
        ("CLNR", {"changes": {"sampled_nodes": 0}}, "each step computes the rows of all nodes"),
        ("Spectral", {}, "Spectral looks at all of the graph"),
        ("GCA", {}, "AdaptiveDropEdges looks at all of the graph"),
    ],
)
def test_what_needs_all_rows_is_refused_with_the_reason(folder, method, more, said):
    with pytest.raises(MethodError) as caught:
        planned(folder, settings(method, **more))
    assert said in str(caught.value)
    assert f"{method} needs " in str(caught.value)


def test_the_plan_of_several_workers_is_of_all_of_them(folder, monkeypatch):
    monkeypatch.setattr(memory_bound, "_LEAST_BLOCK_ROWS", 1)
    monkeypatch.setattr(plan, "fits_memory", lambda *_: False)
    one, two = (planned(folder, settings(), 4e9, workers) for workers in (1, 2))
    assert one.memory < two.memory
    assert two.block_rows < one.block_rows
    assert two.to_dict()["workers"] == 2
    assert "2 workers, from files" in str(two)
    assert "workers" not in str(one)
    with pytest.raises(RecipeError, match="100 workers cannot share 64 nodes of a step; start at most 64"):
        planned(folder, settings(), workers=100)


def test_a_graph_fits_in_memory_if_every_worker_can_load_it(folder):
    needed = 700_000_000
    for limit, workers, fits in (
        (None, 1, True),
        (5e8, 1, False),
        (needed, 1, True),
        (needed, 2, False),
        (2 * needed, 2, True),
    ):
        assert (planned(folder, settings(), limit, workers).block_rows is None) == fits


def test_recipes_of_folders_are_those_of_graphs(folder):
    graph = open_graph(folder.stored.path)
    for chosen in (settings(), Settings(methods.CLNR_MIX, choose("cpu"))):
        assert chosen.recipe_for(graph)[0] == chosen.recipe_for(graph.in_memory())[0]
    assert preset(methods.CLNR, str(folder.stored.path)) == preset(methods.CLNR, None)

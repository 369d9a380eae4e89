"""Rows made in blocks of nodes are those that dense matrices, and the graph in memory, give."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks._graph_folders import write_graph

from clnr.embedding.rows import passes as row_passes
from clnr.embedding.rows.passes import Passes
from clnr.embedding.workspace import Workspace
from clnr.engine import View, choose
from clnr.engine.blocks import BlockEngine, in_blocks
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.graph import Graph
from clnr.graph.csr import edge_keys
from clnr.nn.structure import walks
from clnr.support.processes.workers import ALONE
from tests.embedding.test_from_files import settings
from tests.engine import dense_views


class GatheringEngine(CompiledEngine):
    """Copies rows before it multiplies by them, as a GPU does."""

    gathers_rows = True
    stored_product = BlockEngine.stored_product


NODES = 120
SOME = np.array([0, 3, 4, 50, 51, 52, 119])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(3)
    ends, weight = random.integers(0, NODES, (2, 700)), random.integers(1, 4, 700).astype(np.float32)
    graph = Graph.from_edges(*ends, random.normal(size=(NODES, 5)).astype(np.float32), weight=weight)
    return write_graph(graph, tmp_path_factory.mktemp("graphs") / "graph")


@pytest.fixture
def tens(monkeypatch):
    """Blocks of at least 10 nodes, and at most 30."""
    monkeypatch.setattr(row_passes, "_MOST_NODES", 30)
    monkeypatch.setattr(row_passes, "BLOCK_STEP", 10)


def passes(device_graph, path, block_rows=400, engine=None):
    return Passes(device_graph, settings(engine=engine or choose("cpu", "float32")), Workspace(path, ALONE), block_rows)


def without_edges(graph, pairs) -> Graph:
    """A graph without the edges between some pairs, in either direction."""
    source, target, weight = graph.edges()
    keys = source * graph.num_nodes + target
    kept = ~np.isin(keys, [pairs[0] * graph.num_nodes + pairs[1], pairs[1] * graph.num_nodes + pairs[0]])
    more = {"weight": None if weight is None else weight[kept], "ids": graph.node_ids.tolist()}
    return Graph.from_edges(source[kept], target[kept], graph.features, undirected=not graph.directed, **more)


def seen_graphs(folder):
    """A graph in files and in memory: whole, and with edges held out."""
    whole = folder.in_memory()
    source, target, _ = whole.edges()
    pairs = np.stack([target[source != target], source[source != target]])[:, ::9]
    yield in_blocks(folder), whole
    yield in_blocks(folder, held_out=edge_keys(pairs, NODES)), without_edges(whole, pairs)


@pytest.mark.parametrize("engine", [CompiledEngine, GatheringEngine])
@pytest.mark.parametrize("nodes", [None, np.sort(np.random.default_rng(5).permutation(9000)[:3000])], ids=["all", "some"])
def test_blocks_begin_with_a_page_and_bound_rows_and_edges(tmp_path, engine, nodes):
    random, count = np.random.default_rng(1), 9000
    hub = np.stack([np.arange(count), np.full(count, 2500)])
    ends = np.concatenate([random.integers(0, count, (2, 30_000)), hub], 1)
    wide = write_graph(Graph.from_edges(*ends, np.ones((count, 1), np.float32)), tmp_path / "graph")
    most = 16_000 if engine.gathers_rows else 4000
    most = most if nodes is None else most // 2
    given, degree = passes(in_blocks(wide), tmp_path, most, engine()), np.diff(wide.incoming.indptr)
    blocks = given.blocks(nodes)
    degree = degree if nodes is None else degree[nodes]
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == len(degree)
    assert len(blocks) > 1
    # Of any width: no two blocks have a page in common.
    assert not any(4 * block.start % 4096 for block in blocks)
    for block in blocks:
        edges = degree[block].sum()
        taken = block.stop - block.start + (edges if engine.gathers_rows else edges // 16)
        assert taken <= most or block.stop - block.start == 1024


@pytest.mark.usefixtures("tens")
@pytest.mark.parametrize("engine", [CompiledEngine, GatheringEngine])
def test_rows_are_averaged_and_propagated_as_by_dense_matrices(folder, tmp_path, engine):
    """With and without held-out edges, of all nodes and some; edges that take too much memory, in parts, with the same sums."""
    given = np.random.default_rng(0).normal(size=(NODES, 6)).astype(np.float32)
    for number, (device_graph, graph) in enumerate(seen_graphs(folder)):
        source, target, weight = graph.edges()
        adjacency = np.zeros((NODES, NODES))
        adjacency[target, source] = weight
        adjacency = np.maximum(adjacency, adjacency.T)
        np.fill_diagonal(adjacency, 0)
        average = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1e-30)
        propagation = dense_views.propagation(View(choose("cpu", "float32").to_device(graph)))
        made = [passes(device_graph, tmp_path / f"{number}-{most}", most, engine()) for most in (10_000, 20, 4)]
        assert [len(each.blocks()) for each in made] == [4, 12, 12]
        for nodes, expected in ((None, propagation @ given), (SOME, (propagation @ given)[SOME])):
            whole, *parts = (each.propagated(f"propagated-{len(expected)}", "", given, nodes) for each in made)
            np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-5)
            assert all(np.array_equal(part, whole) for part in parts)
        for nodes, expected in ((None, average @ given), (SOME, (average @ given)[SOME])):
            length = np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-30)
            whole, *parts = (each.walk_step(f"stepped-{len(expected)}", "", given, nodes) for each in made)
            np.testing.assert_allclose(whole, expected / length, rtol=1e-4, atol=1e-5)
            assert all(np.array_equal(part, whole) for part in parts)


@pytest.mark.usefixtures("tens")
def test_walks_over_files_are_walks(folder, tmp_path):
    engine = choose("cpu", "float32")
    for number, (device_graph, graph) in enumerate(seen_graphs(folder)):
        made = passes(device_graph, tmp_path / str(number))
        # The second goes on where the first ended.
        for steps in ((1, 4), (1, 4, 8)):
            for found, expected in zip(made.walks(10, steps), walks(engine, engine.to_device(graph), 10, steps), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            assert {path.stem for path in made.workspace.folder.iterdir()} == {f"walk-10-{step}" for step in steps}


@pytest.mark.usefixtures("tens")
def test_the_next_block_is_read_while_one_is_computed(folder, tmp_path):
    second_is_read = threading.Event()

    def read(block):
        if block.nodes[0]:
            second_is_read.set()
        return torch.from_numpy(block.nodes[:, None])

    def compute(nodes):
        assert second_is_read.wait(60)
        return nodes

    assert len(passes(in_blocks(folder), tmp_path).make("rows", "", read, compute)) == NODES


@pytest.mark.usefixtures("tens")
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell which files are mapped")
def test_what_is_removed_is_not_open_any_more(folder, tmp_path, monkeypatch):
    """Removed files take disk until nothing has them open."""
    drop, after = Workspace.drop, []

    def counted(self, *names):
        drop(self, *names)
        after.append(Path("/proc/self/maps").read_text().count("(deleted)"))

    before = Path("/proc/self/maps").read_text().count("(deleted)")
    monkeypatch.setattr(Workspace, "drop", counted)
    passes(in_blocks(folder), tmp_path).walks(4, (12,))
    assert len(after) == 12
    assert max(after) <= before

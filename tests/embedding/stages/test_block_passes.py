"""Passes over blocks of nodes: chains that share them, and rows of all nodes in one file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks._graph_folders import write_graph

from clnr.embedding.stages import block_passes
from clnr.embedding.stages.block_passes import BlockEdges, Part, Passes, node_blocks
from clnr.embedding.store.row_files import LayerFiles
from clnr.engine.blocks import BlockEngine, NeighbourRows, in_blocks
from clnr.engine.cpu.cpu_engine import CompiledEngine
from clnr.graph import Graph
from clnr.graph.csr import edge_keys
from tests.embedding.stages.test_graph_in_files import settings


class GatheringEngine(CompiledEngine):
    """Copies rows before it multiplies by them, as a GPU does."""

    gathers_rows = True
    stored_product = BlockEngine.stored_product


NODES = 120
BLOCKS = [slice(0, 1), slice(1, 50), slice(50, 51), slice(51, NODES)]


@pytest.mark.parametrize("width", [1, 10, 128, 1024, 1500])
def test_rows_are_read_from_one_file_in_any_order(tmp_path, width):
    files = LayerFiles(tmp_path / "rows", BLOCKS, 1 << 30)
    rows = np.random.default_rng(0).normal(size=(NODES, width)).astype(np.float32)
    for number in (2, 0, 3, 1):
        assert not files.complete
        assert not files.has(number)
        files.write(number, rows[BLOCKS[number]])
        assert files.width(number) == width
    assert files.complete
    nodes = np.array([119, 0, 50, 49, 50, 51, 3])
    torch.testing.assert_close(files.rows(nodes), torch.from_numpy(rows[nodes]), rtol=0, atol=0)
    assert files.rows(np.empty(0, np.int64)).shape == (0, width)


@pytest.mark.parametrize("gathers", [False, True])
def test_blocks_begin_with_a_page_and_bound_rows_and_edges(tmp_path, gathers):
    random, count = np.random.default_rng(1), 9000
    hub = np.stack([np.arange(count), np.full(count, 2500)])
    ends = np.concatenate([random.integers(0, count, (2, 30_000)), hub], 1)
    wide = write_graph(Graph.from_edges(*ends, np.ones((count, 1), np.float32)), tmp_path / "graph")
    blocks = node_blocks(wide, 16_000 if gathers else 4000, gathers)
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    assert blocks[-1].stop == count
    assert len(blocks) > 2
    # Of any width: no two blocks have a page in common.
    assert not any(4 * block.start % 4096 for block in blocks)
    indptr = wide.incoming.indptr
    for block in blocks:
        edges = indptr[block.stop] - indptr[block.start]
        rows = block.stop - block.start + (edges if gathers else edges // 16)
        assert rows <= (16_000 if gathers else 4000) or block.stop - block.start == 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(3)
    ends, weight = random.integers(0, NODES, (2, 700)), random.integers(1, 4, 700).astype(np.float32)
    graph = Graph.from_edges(*ends, random.normal(size=(NODES, 5)).astype(np.float32), weight=weight)
    return write_graph(graph, tmp_path_factory.mktemp("graphs") / "graph")


@pytest.mark.parametrize("nodes", [np.arange(20, 60), np.array([0, 1, 7, 90, 119])], ids=["range", "some"])
def test_averages_over_neighbours_with_and_without_held_out_edges(folder, nodes):
    source, target, weight = folder.in_memory().edges()
    dense = np.zeros((NODES, NODES))
    dense[target, source] = weight
    dense = np.maximum(dense, dense.T)
    np.fill_diagonal(dense, 0)
    pairs = np.stack([target[source != target], source[source != target]])[:, ::9]
    whole = in_blocks(folder)
    both = NeighbourRows(whole, nodes)
    seen = in_blocks(folder, held_out=edge_keys(pairs, folder.num_nodes))
    for device_graph, held in ((seen, pairs), (whole, pairs[:, :0])):
        expected = dense.copy()
        expected[held[0], held[1]] = expected[held[1], held[0]] = 0
        expected = (expected / np.maximum(expected.sum(1, keepdims=True), 1e-30))[nodes]
        indptr, columns, values = both.average(device_graph)
        found = np.zeros((len(nodes), NODES))
        found[np.repeat(np.arange(len(nodes)), np.diff(indptr)), columns] = values
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_chains_of_two_graphs_share_passes_and_edges(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(block_passes, "_MOST_NODES", 30)
    monkeypatch.setattr(block_passes, "BLOCK_STEP", 10)
    chosen, made, read = settings(), [], []
    whole = in_blocks(folder)
    one, other = (
        Passes(each, chosen, tmp_path / name, 400)
        for name, each in (("seen", in_blocks(folder, held_out=np.array([1, folder.num_nodes]))), ("all", whole))
    )
    make, init = Passes.make, NeighbourRows.__init__
    monkeypatch.setattr(Passes, "make", lambda self, parts: made.append([part.what for part in parts]) or make(self, parts))
    monkeypatch.setattr(NeighbourRows, "__init__", lambda self, *arguments: read.append(1) or init(self, *arguments))

    def ones(passes):
        files = passes.files("ones")
        yield Part("ones", files, lambda edges: None, lambda nodes, _: torch.ones(len(nodes), 3), reads_edges=False)
        yield Part("sums", passes.files("sums"), partial(passes.propagate, source=files))
        return "done"

    assert one.run(one.walk(4, 2, (2,)), other.walk(4, 3, (3,)), ones(other)) == [None, None, "done"]
    step = "walks, step {} of 16".format
    assert made == [
        ["random rows", "random rows", "ones"],
        [step(1), step(1), "sums"],
        [step(2), step(2)],
        [step(3)],
    ]
    assert len(read) == 3 * len(one.blocks)
    # All is there.
    one.run(one.walk(4, 2, (2,)), other.walk(4, 3, (3,)))
    assert len(made) == 4


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell which files are mapped")
def test_what_is_removed_is_not_open_any_more(folder, tmp_path):
    passes, most = Passes(in_blocks(folder), settings(), tmp_path / "seen", 400), []

    def done(step, files):
        files.rows(np.arange(3))
        most.append(Path("/proc/self/maps").read_text().count("(deleted)"))

    before = Path("/proc/self/maps").read_text().count("(deleted)")
    passes.run(passes.walk(4, 12, (12,), done))
    assert len(most) == 12
    assert max(most) <= before + 1


@pytest.mark.parametrize("engine", [CompiledEngine, GatheringEngine])
def test_edges_that_take_too_much_memory_are_read_in_parts(folder, tmp_path, engine):
    """So many rows are in memory at a time; the sums of a row are the same."""
    chosen, whole = settings(engine=engine()), in_blocks(folder)
    passes = Passes(whole, chosen, tmp_path / "all", 10_000)
    passes.run(passes.walk(6, 0, (0,)))
    rows, nodes = passes.walk_files(6, 0), np.array([0, 3, 4, 50, 51, 52, 119])
    for make in ("average", "propagate"):
        expected = getattr(BlockEdges(passes.engine, folder, nodes, 10_000), make)(whole, rows)(False)
        for most in (1, 2, 4):
            edges = BlockEdges(passes.engine, folder, nodes, most)
            assert len(edges._some_nodes) > 1
            np.testing.assert_array_equal(getattr(edges, make)(whole, rows)(False), expected)
